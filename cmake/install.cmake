# Installs the library, its headers and the command, and what find_package(mezzo) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mezzo)

# mezzo_sanitize is exported too: who links a sanitized library must link the sanitizer's run time.
# Without MEZZO_SANITIZE it is empty.
install(TARGETS mezzo mezzo_sanitize
  EXPORT mezzo-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET mezzo_cli)
  install(TARGETS mezzo_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Kernels are reached through ops only; their headers stay inside. So do those that include ONNX's or MPI's,
# which a program that links mezzo does not have.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/mezzo
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "mezzo/kernels" EXCLUDE
  PATTERN "mezzo/cli" EXCLUDE
  PATTERN "mezzo/distributed/mpi_library.h" EXCLUDE
  PATTERN "mezzo/interchange/onnx_*.h" EXCLUDE)

install(EXPORT mezzo-targets NAMESPACE mezzo:: DESTINATION ${package_dir})
# What a static library with CUDA kernels is linked with; of MPI, cuDNN and cuBLASLt nothing is linked.
get_target_property(kind mezzo TYPE)
if(kind STREQUAL "STATIC_LIBRARY" AND TARGET CUDA::cudart_static)
  install(FILES "$<TARGET_FILE:CUDA::cudart_static>" DESTINATION ${CMAKE_INSTALL_LIBDIR}/mezzo)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/mezzo-cudart.cmake DESTINATION ${package_dir})
endif()
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/mezzo-config.cmake.in
  ${PROJECT_BINARY_DIR}/mezzo-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/mezzo-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/mezzo-config.cmake
  ${PROJECT_BINARY_DIR}/mezzo-config-version.cmake
  DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
