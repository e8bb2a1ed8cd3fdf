# Installs the library, its headers and the command, and what find_package(mezzo) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The command finds cuDNN and cuBLASLt where the build did, in Python's packages for example.
if(TARGET mezzo_cli)
  set_target_properties(mezzo_cli PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()

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
set(MEZZO_PACKAGE_FINDS_CUDA "")
if(MEZZO_WITH_CUDA)
  set(MEZZO_PACKAGE_FINDS_CUDA "find_dependency(CUDAToolkit)")
endif()
set(MEZZO_PACKAGE_FINDS_MPI "")
if(MEZZO_WITH_MPI)
  set(MEZZO_PACKAGE_FINDS_MPI "find_dependency(MPI COMPONENTS CXX)")
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
