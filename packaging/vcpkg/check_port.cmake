# Runs the portfile with functions of vcpkg that do the least: cmake -DLINKAGE=static|dynamic [-DFEATURES=command]
# -P check_port.cmake. It shows that the port configures with what it hands over, where the libraries are the
# system's, and nothing of vcpkg itself.
cmake_minimum_required(VERSION 3.25)
set(VCPKG_LIBRARY_LINKAGE "${LINKAGE}")
set(work "${CMAKE_CURRENT_BINARY_DIR}/port-${LINKAGE}")
set(CURRENT_PACKAGES_DIR "${work}/package")

function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
  list(POP_FRONT arg_FEATURES feature option)
  set(value OFF)
  if(feature IN_LIST FEATURES)
    set(value ON)
  endif()
  set(${arg_OUT_FEATURE_OPTIONS} -D${option}=${value} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${work}/build" --fresh -G Ninja
    -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib ${arg_OPTIONS}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(result OR output MATCHES "Manually-specified variables were not used")
    message(FATAL_ERROR "${output}")
  endif()
endfunction()

function(vcpkg_cmake_install)
endfunction()

# Where the configuration will lie is where the port says that it does.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(READ "${work}/build/cmake_install.cmake" rules)
  if(NOT rules MATCHES "/${arg_CONFIG_PATH}\"")
    message(FATAL_ERROR "nothing is installed into ${arg_CONFIG_PATH}")
  endif()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_copy_tools)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  if(NOT EXISTS "${arg_FILE_LIST}")
    message(FATAL_ERROR "there is no ${arg_FILE_LIST}")
  endif()
endfunction()

# The version and the names are the project's.
file(READ "${CMAKE_CURRENT_LIST_DIR}/mezzo/vcpkg.json" manifest)
string(JSON version GET "${manifest}" version)
file(READ "${CMAKE_CURRENT_LIST_DIR}/../../CMakeLists.txt" project)
if(NOT project MATCHES "project\\(mezzo VERSION ${version} ")
  message(FATAL_ERROR "vcpkg.json has the version ${version}, the project another")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/mezzo/portfile.cmake")
