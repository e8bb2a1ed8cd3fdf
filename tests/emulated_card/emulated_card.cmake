# CUDA without a GPU: the kernels as C++ for the host, and a runtime that runs them there. It only
# needs NVIDIA's CUDA headers.

set(MEZZO_EMULATED_CARD_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(MEZZO_TRANSLATED_ROOT "${PROJECT_BINARY_DIR}/emulated_card")

# Writes kernel files as C++ for g++ into the build directory, under the names by which they are
# included; a .cu file gets an additional .cpp ending. Three CUDA constructs are not C++:
#   kernel<T><<<grid, threads, shared, stream>>>(arguments)
#   __shared__ float sums[256];
#   inline PTX assembly, which is in parts for __CUDA_ARCH__ and is skipped here
function(mezzo_translate_cuda files)
  foreach(file IN LISTS files)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE to)
    file(READ "${file}" text)
    string(REGEX REPLACE "([a-z_]+(<[^;(){}]*>)?)([ \n]*)<<<([^;]*)>>>\\("
      "::mezzo::emulated_card::Grid(\\4).launch(\\3[=](const auto&... all) { \\1(all...); }, " text "${text}")
    string(REGEX REPLACE "__shared__ ([^;]*[^A-Za-z_0-9])([A-Za-z_0-9]+)((\\[[^;]*\\])*);"
      "static \\1\\2\\3; ::mezzo::emulated_card::forget_shared(&\\2, sizeof(\\2));" text "${text}")
    string(REGEX REPLACE "\\.cu$" ".cu.cpp" to "${MEZZO_TRANSLATED_ROOT}/${to}")
    file(CONFIGURE OUTPUT "${to}" CONTENT "#line 1 \"${file}\"\n@text@" @ONLY)
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  endforeach()
endfunction()

# Compiles the target's .cu files for the host.
function(mezzo_compile_for_host target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(directory ${target} SOURCE_DIR)
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  foreach(kernel IN LISTS kernels)
    cmake_path(ABSOLUTE_PATH kernel BASE_DIRECTORY "${directory}")
    mezzo_translate_cuda("${kernel}")
    cmake_path(RELATIVE_PATH kernel BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    list(APPEND translated "${MEZZO_TRANSLATED_ROOT}/${kernel}.cpp")
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${sources};${translated}")
  # Of undefined behaviour, only misaligned packs are checked, for which a GPU stops without a
  # message. All checks would take twice as long to compile.
  set(sanitizers "")
  if("undefined" IN_LIST MEZZO_SANITIZE)
    set(sanitizers ";-fno-sanitize=undefined;-fsanitize=alignment")
  endif()
  set_source_files_properties(${translated} TARGET_DIRECTORY ${target} PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
    COMPILE_OPTIONS "-include;${MEZZO_EMULATED_CARD_DIR}/device_code.h;-Wno-unknown-pragmas;-Wno-sign-compare${sanitizers}")
  target_include_directories(${target} BEFORE PRIVATE "${MEZZO_TRANSLATED_ROOT}")
  target_include_directories(${target} SYSTEM PRIVATE "${MEZZO_CUDA_INCLUDE}" "${MEZZO_CUDNN_INCLUDE}")
  if(MEZZO_WITH_NCCL)
    target_include_directories(${target} SYSTEM PRIVATE "${MEZZO_NCCL_INCLUDE}")
  endif()
endfunction()

# mezzo_emulated_card: the objects of the library's CUDA kernels, compiled for the host, and of the
# emulated card. Linked before the library, they replace the library's own kernels.
function(mezzo_add_emulated_card)
  find_path(MEZZO_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include)
  mark_as_advanced(MEZZO_CUDA_INCLUDE)
  if(NOT MEZZO_CUDA_INCLUDE OR NOT MEZZO_CUDNN_INCLUDE)
    message(FATAL_ERROR "An emulated card takes NVIDIA's headers, which were not found: "
                        "cuda_runtime_api.h ${MEZZO_CUDA_INCLUDE}, cudnn.h ${MEZZO_CUDNN_INCLUDE}. "
                        "Install them, or set MEZZO_CUDA=OFF")
  endif()
  get_target_property(sources mezzo SOURCES)
  list(FILTER sources INCLUDE REGEX "/kernels/cuda/")
  list(FILTER sources EXCLUDE REGEX "/kernels/cuda/(libraries|nccl_library)\\.cpp$")
  set(parts block cublaslt cudnn libraries memory queue runtime tensor_core)
  if(MEZZO_WITH_NCCL)
    list(APPEND parts nccl)
  endif()
  foreach(part IN LISTS parts)
    list(APPEND sources "${MEZZO_EMULATED_CARD_DIR}/${part}.cpp")
  endforeach()
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/mezzo/kernels/cuda/*.cuh")
  mezzo_translate_cuda("${headers}")
  add_library(mezzo_emulated_card OBJECT ${sources})
  mezzo_compile_for_host(mezzo_emulated_card)
  set_target_properties(mezzo_emulated_card PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(mezzo_emulated_card PRIVATE OpenMP::OpenMP_CXX mezzo_warnings mezzo_sanitize)
  target_include_directories(mezzo_emulated_card PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  # Most of the time goes into waiting for other threads and into compiling.
  target_compile_options(mezzo_emulated_card PRIVATE -O1)
endfunction()

# Makes the library use these objects as its own.
function(mezzo_use_emulated_card)
  get_target_property(sources mezzo SOURCES)
  list(FILTER sources EXCLUDE REGEX "/kernels/cuda/")
  set_target_properties(mezzo PROPERTIES SOURCES "${sources}")
  target_sources(mezzo PRIVATE $<TARGET_OBJECTS:mezzo_emulated_card>)
  message(STATUS "CUDA kernels: for the host, with an emulated card")
endfunction()
