# What an installation holds: headers, the three libraries, the command, and how CMake finds them.
include(CMakePackageConfigHelpers)

install(TARGETS headproof_attention headproof_checker headproof_pictures EXPORT headproof)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/headproof TYPE INCLUDE)
install(FILES LICENSE README.md CHANGELOG.md TYPE DOC)
install(DIRECTORY docs/ TYPE DOC)
if(HEADPROOF_BUILD_CLI)
  set_target_properties(headproof PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS headproof)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/headproof)
install(EXPORT headproof NAMESPACE headproof:: FILE headproofTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/headproofConfig.cmake.in headproofConfig.cmake
                              INSTALL_DESTINATION ${package})
# While the version begins with 0, the second number says what fits together.
write_basic_package_version_file(headproofConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headproofConfig.cmake
              ${PROJECT_BINARY_DIR}/headproofConfigVersion.cmake DESTINATION ${package})
