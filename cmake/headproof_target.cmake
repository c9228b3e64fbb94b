# How every target of the project is compiled.

# No fused multiply-add but the explicit ones, on every compiler: a result's bits are part of the
# interface.
set(HEADPROOF_OPTIONS -ffp-contract=off)
set(HEADPROOF_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND HEADPROOF_WARNINGS -Wno-restrict)  # False alarms on std::string's operator+.
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # Since g++ 13 these guess wrongly about the standard library's own vector and variant.
  list(APPEND HEADPROOF_WARNINGS -Wno-array-bounds -Wno-maybe-uninitialized -Wno-stringop-overflow)
endif()
if(HEADPROOF_WERROR)
  list(APPEND HEADPROOF_WARNINGS -Werror)
endif()
if(HEADPROOF_SANITIZE)
  list(APPEND HEADPROOF_OPTIONS -fsanitize=${HEADPROOF_SANITIZE} -fno-sanitize-recover=all
       -fno-omit-frame-pointer)
endif()

function(headproof_compile target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${HEADPROOF_OPTIONS} ${HEADPROOF_WARNINGS})
  if(HEADPROOF_SANITIZE)
    target_link_options(${target} PRIVATE -fsanitize=${HEADPROOF_SANITIZE})
  endif()
endfunction()

# headproof_library(NAME [STATIC] ROOMS room...): the library headproof::NAME from the rooms' sources.
function(headproof_library name)
  cmake_parse_arguments(arg "STATIC" "" "ROOMS" ${ARGN})
  set(type)
  if(arg_STATIC)
    set(type STATIC)
  endif()
  add_library(headproof_${name} ${type})
  add_library(headproof::${name} ALIAS headproof_${name})
  set_target_properties(headproof_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  foreach(room IN LISTS arg_ROOMS)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.cc)
    list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
    target_sources(headproof_${name} PRIVATE ${sources})
  endforeach()
  target_include_directories(headproof_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  headproof_compile(headproof_${name})
endfunction()

# headproof_program(NAME source...): an executable that lies at the top of the build folder.
function(headproof_program name)
  add_executable(${name} ${ARGN})
  if(HEADPROOF_SANITIZE)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizer_options.cc)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  headproof_compile(${name})
endfunction()

# Header-only libraries are needed to build, never to link: they stay out of the exported interface.
function(headproof_link_headers name)
  foreach(library IN LISTS ARGN)
    target_include_directories(headproof_${name} SYSTEM PRIVATE
      $<BUILD_INTERFACE:$<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>>)
  endforeach()
endfunction()

# headproof_subject(NAME source): a shared library that the checker can ask, subjects/libNAME.so.
function(headproof_subject name source)
  add_library(subject_${name} MODULE ${source})
  set_target_properties(subject_${name} PROPERTIES OUTPUT_NAME ${name} C_STANDARD 11
    C_EXTENSIONS OFF LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/subjects)
  target_include_directories(subject_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(subject_${name} PRIVATE m)
  headproof_compile(subject_${name})
  add_dependencies(headproof_tests subject_${name})
endfunction()
