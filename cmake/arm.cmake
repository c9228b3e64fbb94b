# 64-bit ARM, compiled on another machine: the packages lie in build/arm_system, where `./run arm`
# unpacks them, and programs run under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

cmake_path(SET arm_system NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../build/arm_system)
set(CMAKE_FIND_ROOT_PATH ${arm_system})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm_system})
set(ENV{PKG_CONFIG_LIBDIR}
    ${arm_system}/usr/lib/aarch64-linux-gnu/pkgconfig:${arm_system}/usr/share/pkgconfig)
# For the linker only: the compiler has headers of the C and C++ libraries of its own.
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,--sysroot=${arm_system})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;${arm_system})
