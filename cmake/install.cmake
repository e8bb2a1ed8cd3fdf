# Installs the library, its headers and the command, and what find_package(mezzo) and pkg-config read. Nothing that
# is installed names a folder of the machine that built it. By components, each a package of Debian:
#   runtime      the shared library
#   development  headers, the static library, and what links a program to either
#   command      the command, its manual pages and completions
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mezzo)
set(MEZZO_ZSH_COMPLETIONS ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING
  "Folder for the completion for zsh, within the prefix; Debian's is share/zsh/vendor-completions")
mark_as_advanced(MEZZO_ZSH_COMPLETIONS)

# Shared and static in files of their own, for both are called mezzo::mezzo; mezzo-config.cmake chooses.
if(BUILD_SHARED_LIBS)
  install(TARGETS mezzo EXPORT mezzo-shared-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
  install(EXPORT mezzo-shared-targets NAMESPACE mezzo:: DESTINATION ${package_dir} COMPONENT development)
  set(static_library mezzo_static)
else()
  set(static_library mezzo)
endif()
# mezzo_sanitize is exported too: who links a sanitized library must link the sanitizer's run time.
# Without MEZZO_SANITIZE it is empty.
install(TARGETS ${static_library} mezzo_sanitize EXPORT mezzo-static-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT mezzo-static-targets NAMESPACE mezzo:: DESTINATION ${package_dir} COMPONENT development)

# What processes load that no MPI has started. Programs find it beside the shared library or, if they are in bin, in
# this folder of their prefix.
if(TARGET mezzo_gloo)
  install(TARGETS mezzo_gloo LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/mezzo COMPONENT runtime)
endif()

# Kernels are reached through ops only; their headers stay inside. So do those that include ONNX's or MPI's,
# which a program that links mezzo does not have.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/mezzo
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "mezzo/kernels" EXCLUDE
  PATTERN "mezzo/cli" EXCLUDE
  PATTERN "mezzo/distributed/mpi_library.h" EXCLUDE
  PATTERN "mezzo/interchange/onnx_*.h" EXCLUDE)

# What a static library with CUDA kernels is linked with; of MPI, cuDNN and cuBLASLt nothing is linked.
set(MEZZO_PC_CUDA "")
if(TARGET CUDA::cudart_static)
  install(FILES "$<TARGET_FILE:CUDA::cudart_static>" DESTINATION ${CMAKE_INSTALL_LIBDIR}/mezzo COMPONENT development)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/mezzo-cudart.cmake DESTINATION ${package_dir} COMPONENT development)
  set(MEZZO_PC_CUDA " -L\${libdir}/mezzo -lcudart_static -lrt")
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
  ${PROJECT_SOURCE_DIR}/cmake/mezzo-pcre2.cmake
  DESTINATION ${package_dir} COMPONENT development)

# From the folder of mezzo.pc to the prefix: a prefix that is moved is found.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH MEZZO_PC_UP "/prefix/${pkgconfig_dir}" "/prefix")
string(REGEX REPLACE "/$" "" MEZZO_PC_UP "${MEZZO_PC_UP}")
# What the static library uses is private where there is a shared one; nothing links without it where not.
set(MEZZO_PC_REQUIRES "Requires:")
set(MEZZO_PC_LIBS "")
if(BUILD_SHARED_LIBS)
  set(MEZZO_PC_REQUIRES "Requires.private:")
  set(MEZZO_PC_LIBS "\nLibs.private:")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/mezzo.pc.in ${PROJECT_BINARY_DIR}/mezzo.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mezzo.pc DESTINATION ${pkgconfig_dir} COMPONENT development)

if(TARGET mezzo_cli)
  include(${PROJECT_SOURCE_DIR}/cmake/install_command.cmake)
endif()
if(NOT MEZZO_DEBIAN_PACKAGES)  # which have it in a form of their own
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mezzo COMPONENT development)
endif()
