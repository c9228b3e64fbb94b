# How every target of the project is compiled.

# No fused multiply-add but the explicit ones, on every compiler: a result's bits are part of the
# interface.
set(HEADPROOF_OPTIONS -ffp-contract=off)
set(HEADPROOF_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion)
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
  target_link_options(${target} PUBLIC $<BUILD_INTERFACE:$<$<BOOL:${HEADPROOF_SANITIZE}>:-fsanitize=${HEADPROOF_SANITIZE}>>)
endfunction()

# headproof_library(NAME ROOMS room...): the library headproof::NAME from the rooms' sources.
function(headproof_library name)
  cmake_parse_arguments(arg "" "" "ROOMS" ${ARGN})
  add_library(headproof_${name})
  add_library(headproof::${name} ALIAS headproof_${name})
  set_target_properties(headproof_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
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

# Header-only libraries are needed to build, never to link: they stay out of the exported interface.
function(headproof_link_headers name)
  foreach(library IN LISTS ARGN)
    target_include_directories(headproof_${name} SYSTEM PRIVATE
      $<BUILD_INTERFACE:$<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>>)
  endforeach()
endfunction()
