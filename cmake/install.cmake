# `cmake --install` gives headers, library, the tessera binary, a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS tessera EXPORT tessera-targets
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TESSERA_CLI)
  install(TARGETS tessera_binary RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# A static library leaves what it needs to whoever links it.
set(needs "-lstdc++ -lm -lpthread -ldl")
get_target_property(type tessera TYPE)
if(type STREQUAL "STATIC_LIBRARY")
  if(TESSERA_CUDA_HERE)
    set(tessera_cuda_dependency "find_dependency(CUDAToolkit)")
    set(needs "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt ${needs}")
  endif()
  set(tessera_pc_libs " ${needs}")
else()
  set(tessera_pc_libs "\nLibs.private: ${needs}")
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tessera-config.cmake.in
  ${PROJECT_BINARY_DIR}/tessera-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tessera-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tessera-config.cmake ${PROJECT_BINARY_DIR}/tessera-config-version.cmake
  DESTINATION ${package_dir})
install(EXPORT tessera-targets NAMESPACE tessera:: DESTINATION ${package_dir})

# Relative to the file itself, so that the installed tree can be moved.
file(RELATIVE_PATH prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tessera.pc.in ${PROJECT_BINARY_DIR}/tessera.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
