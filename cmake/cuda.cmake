# MEZZO_WITH_CUDA: whether kernels/cuda is built. By MEZZO_CUDA: ON needs nvcc and the headers of cuDNN 9.1 and
# cuBLASLt, OFF does without, AUTO takes them where they and a card are. EMULATED compiles the kernels for the
# host, with a card that tests/emulated_card makes of it: slow, but every thread of a kernel is run, and can be
# watched by sanitizers and debuggers. It needs NVIDIA's headers only, no compiler, library or card.
# The kernels take two fifths of the time of a whole build, so who has no card is not to pay for them. Builds with
# tests are: they run the kernels on the emulated card. Sanitized builds take them only when told to: what the
# sanitizers see of a real card is the driver's own allocations. So do projects that mezzo is a part of: the
# language CUDA would be enabled for all of them.
set(default AUTO)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(default OFF)
endif()
set(MEZZO_CUDA ${default} CACHE STRING "Build the CUDA kernels: AUTO, ON, OFF or EMULATED")
set_property(CACHE MEZZO_CUDA PROPERTY STRINGS AUTO ON OFF EMULATED)
set(MEZZO_WITH_CUDA OFF)
if(NOT MEZZO_CUDA MATCHES "^(AUTO|ON|OFF|EMULATED)$")
  message(FATAL_ERROR "MEZZO_CUDA must be AUTO, ON, OFF or EMULATED, it is '${MEZZO_CUDA}'")
endif()
# An option that asks for what will not be there is an error, not a wish.
if(MEZZO_CUDA STREQUAL "OFF" AND MEZZO_NCCL STREQUAL "ON")
  message(FATAL_ERROR "MEZZO_NCCL is ON, which is for cards, but MEZZO_CUDA is OFF. Set it ON, too, or leave both out")
endif()
if(MEZZO_CUDA STREQUAL "OFF" OR (MEZZO_CUDA STREQUAL "AUTO" AND MEZZO_SANITIZE))
  message(STATUS "CUDA kernels: no, by MEZZO_CUDA=${MEZZO_CUDA}; MEZZO_CUDA=ON builds them")
  return()
endif()
if(MEZZO_CUDA STREQUAL "AUTO" AND NOT MEZZO_TESTS)
  # NVIDIA's driver on servers and desktops, that of Jetson, and Windows' for WSL.
  file(GLOB cards /dev/nvidia[0-9]* /proc/driver/nvidia/gpus/* /dev/nvgpu* /dev/nvhost-gpu /dev/dxg)
  if(NOT cards OR CMAKE_CROSSCOMPILING)
    message(STATUS "CUDA kernels: no, there is no card here; MEZZO_CUDA=ON builds them all the same")
    return()
  endif()
endif()
set(MEZZO_CUDA_PATHS "" CACHE STRING
  "Further folders whose include and lib may hold cuDNN, cuBLASLt and NCCL, as Python's packages do")
# Where a toolkit for several processors has what is for this one. Arm servers are "sbsa" there, Jetsons "aarch64".
set(processors "${CMAKE_SYSTEM_PROCESSOR}")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(processors sbsa aarch64)
endif()
list(TRANSFORM processors REPLACE "(.+)" "targets/\\1-linux/include" OUTPUT_VARIABLE includes)
list(TRANSFORM processors REPLACE "(.+)" "targets/\\1-linux/lib" OUTPUT_VARIABLE libraries)
find_path(MEZZO_CUDNN_INCLUDE cudnn.h HINTS /usr/local/cuda PATHS ${MEZZO_CUDA_PATHS}
  PATH_SUFFIXES include ${includes})
include("${PROJECT_SOURCE_DIR}/tests/emulated_card/emulated_card.cmake")

# MEZZO_WITH_NCCL: whether processes with cards exchange by NCCL. By MEZZO_NCCL: ON needs its header, OFF does
# without, AUTO takes it where it is. Debian has no NCCL.
set(MEZZO_NCCL AUTO CACHE STRING "Exchanges between cards by NCCL: AUTO, ON or OFF")
set_property(CACHE MEZZO_NCCL PROPERTY STRINGS AUTO ON OFF)
set(MEZZO_WITH_NCCL OFF)
if(NOT MEZZO_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "MEZZO_NCCL must be AUTO, ON or OFF, it is '${MEZZO_NCCL}'")
endif()
function(mezzo_find_nccl)
  find_path(MEZZO_NCCL_INCLUDE nccl.h HINTS ${ARGN} /usr/local/cuda PATHS ${MEZZO_CUDA_PATHS}
    PATH_SUFFIXES include ${includes})
  find_library(MEZZO_NCCL_LIBRARY NAMES nccl libnccl.so.2
    HINTS ${ARGN} /usr/local/cuda PATHS ${MEZZO_CUDA_PATHS} PATH_SUFFIXES lib64 lib ${libraries})
  mark_as_advanced(MEZZO_NCCL_INCLUDE MEZZO_NCCL_LIBRARY)
  set(version 0)
  if(MEZZO_NCCL_INCLUDE)
    file(STRINGS "${MEZZO_NCCL_INCLUDE}/nccl.h" line REGEX "define NCCL_VERSION_CODE +[0-9]+")
    string(REGEX MATCH "[0-9]+" version "${line}")
  endif()
  # The first one in which ncclGetLastError() is: 2.13.
  set(oldest 21300)
  if(version GREATER_EQUAL oldest)
    set(MEZZO_WITH_NCCL ON PARENT_SCOPE)
    message(STATUS "Exchanges between cards: by NCCL ${version}, loaded by the processes that train together")
  elseif(MEZZO_NCCL STREQUAL "ON")
    message(FATAL_ERROR "MEZZO_NCCL is ON, but no nccl.h of NCCL 2.13 or later was found: '${MEZZO_NCCL_INCLUDE}'. "
                        "Install it, name the folder that holds it in MEZZO_CUDA_PATHS, or set MEZZO_NCCL=OFF")
  else()
    message(STATUS "Exchanges between cards: through host memory, no NCCL 2.13 was found")
  endif()
endfunction()

if(MEZZO_CUDA STREQUAL "EMULATED")
  if(NOT MEZZO_NCCL STREQUAL "OFF")
    mezzo_find_nccl()
  endif()
  set(MEZZO_WITH_CUDA ON)
  return()
endif()

# Compiles the library's .cu files of a few lines as one, for what they include takes nvcc three seconds in each.
# (CMake's own unity builds have C and C++ only, up to 3.30.)
function(mezzo_join_small_cuda_sources)
  set(few_bytes 1900)
  get_target_property(all mezzo SOURCES)
  set(sources ${all})
  list(FILTER sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/.*\\.cu$")
  set(includes "")
  foreach(source IN LISTS sources)
    file(SIZE "${source}" bytes)
    if(bytes LESS few_bytes)
      string(APPEND includes "#include \"${source}\"\n")
      set_source_files_properties("${source}" TARGET_DIRECTORY mezzo PROPERTIES HEADER_FILE_ONLY ON)
    endif()
  endforeach()
  set(joined "${PROJECT_BINARY_DIR}/generated/small_kernels.cu")
  file(CONFIGURE OUTPUT "${joined}" CONTENT "${includes}" @ONLY)
  # First, for Ninja starts what it can in this order, and a long one at the end would keep a core waiting.
  set_target_properties(mezzo PROPERTIES SOURCES "${joined};${all}")
endfunction()

find_program(MEZZO_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
set(toolkit /usr/local/cuda)
if(MEZZO_NVCC)
  file(REAL_PATH "${MEZZO_NVCC}" toolkit)
  cmake_path(GET toolkit PARENT_PATH toolkit)
  cmake_path(GET toolkit PARENT_PATH toolkit)
endif()
if(NOT MEZZO_NCCL STREQUAL "OFF")
  mezzo_find_nccl("${toolkit}")
endif()
find_path(MEZZO_CUBLASLT_INCLUDE cublasLt.h
  HINTS "${toolkit}" /usr/local/cuda PATHS ${MEZZO_CUDA_PATHS} PATH_SUFFIXES include ${includes})
# Programs load the libraries when they use a card. Where they are now is where they are looked for last.
# Packages for running programs, such as Python's, have no libcudnn.so, only the name with the number.
find_library(MEZZO_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
  HINTS "${toolkit}" /usr/local/cuda PATHS ${MEZZO_CUDA_PATHS} PATH_SUFFIXES lib64 lib ${libraries})
find_library(MEZZO_CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12
  HINTS "${toolkit}" /usr/local/cuda PATHS ${MEZZO_CUDA_PATHS} PATH_SUFFIXES lib64 lib ${libraries})
mark_as_advanced(MEZZO_NVCC MEZZO_CUDNN_INCLUDE MEZZO_CUDNN_LIBRARY MEZZO_CUBLASLT_INCLUDE
                 MEZZO_CUBLASLT_LIBRARY MEZZO_CUDA_PATHS)
foreach(part NVCC CUDNN_INCLUDE CUBLASLT_INCLUDE)
  if(NOT MEZZO_${part})
    if(MEZZO_CUDA STREQUAL "ON")
      message(FATAL_ERROR "MEZZO_CUDA is ON, but MEZZO_${part} was not found. "
                          "Install nvcc, cuDNN 9.1 and cuBLASLt, name the folders that hold them in "
                          "MEZZO_CUDA_PATHS, or set MEZZO_CUDA=OFF")
    endif()
    message(STATUS "CUDA kernels: no, MEZZO_${part} was not found; docs/cuda.md has what they take")
    return()
  endif()
endforeach()

if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${MEZZO_NVCC}")
endif()
# By default machine code for A100 (80) and H100 (90), and PTX that drivers of later cards compile: all
# from code for 80, for nothing here is written for one of them, and a fifth of the time of nvcc is saved.
# CMake has no word for that. A single one builds in less: -DCMAKE_CUDA_ARCHITECTURES=90.
set(MEZZO_CUDA_TARGETS "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT MEZZO_CUDA_TARGETS)
  set(CMAKE_CUDA_ARCHITECTURES OFF)
endif()
if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know that nvcc speaks C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
# The run time is linked by name below, so that programs outside of this project get it too.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
enable_language(CUDA)
find_package(CUDAToolkit 12 REQUIRED)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()
set(MEZZO_WITH_CUDA ON)
if(NOT MEZZO_CUDA_TARGETS)
  set(MEZZO_CUDA_TARGETS sm_80 sm_90 compute_80)
  list(JOIN MEZZO_CUDA_TARGETS "," targets)
  string(APPEND CMAKE_CUDA_FLAGS " --generate-code=arch=compute_80,code=[${targets}]")
endif()
list(JOIN MEZZO_CUDA_TARGETS " " architectures)
message(STATUS "CUDA kernels: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, for ${architectures}")
foreach(part CUDNN CUBLASLT)
  if(NOT MEZZO_${part}_LIBRARY)
    message(STATUS "CUDA kernels: MEZZO_${part}_LIBRARY was not found; programs load it when they use a card")
  endif()
endforeach()
