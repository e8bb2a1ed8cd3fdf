# Operations are listed once, in mezzo/ops/CMakeLists.txt:
#
#   mezzo_add_op(softmax OPS softmax softmax_grad CPU CUDA REF)
#
# adds mezzo/ops/softmax.cpp (the definitions) and, for each named back end, the kernels in
# mezzo/kernels/<backend>/softmax.cpp. OPS names the operations that these files define (default:
# the name of the file). ROOM names the folder of kernels/cpu that holds the CPU's file, where a room has all that
# belongs to it:
#
#   mezzo_add_op(lstm OPS lstm lstm_grad CPU REF ROOM recurrent)    mezzo/kernels/cpu/recurrent/lstm.cpp
#
# From the list, mezzo_write_registry() writes two files. registry.cpp holds plain declarations and
# one table, without macros or static initialisers (which a static library would silently drop).
# mezzo/ops/all.h lets code name an operation as ops::softmax, so that a wrong name is a compile
# error.
#
# A listed file that does not exist is a configure error. VIEW marks operations without kernels.
# CUDA names a .cu file and has no effect where CUDA is not built: the table then has no such
# column.

set_property(GLOBAL PROPERTY MEZZO_REGISTRY_OPS "")
set_property(GLOBAL PROPERTY MEZZO_REGISTRY_DECLARATIONS "")
set_property(GLOBAL PROPERTY MEZZO_REGISTRY_ROWS "")

function(mezzo_add_op stem)
  cmake_parse_arguments(PARSE_ARGV 1 arg "CPU;CUDA;REF;VIEW" "ROOM" "OPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mezzo_add_op(${stem}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_OPS)
    set(arg_OPS ${stem})
  endif()
  set(root "${PROJECT_SOURCE_DIR}/mezzo")
  target_sources(mezzo PRIVATE "${root}/ops/${stem}.cpp")
  if(arg_CPU)
    cmake_path(APPEND cpu_file "${root}/kernels/cpu" "${arg_ROOM}" "${stem}.cpp")
    target_sources(mezzo PRIVATE "${cpu_file}")
  endif()
  if(arg_CUDA AND MEZZO_WITH_CUDA)
    target_sources(mezzo PRIVATE "${root}/kernels/cuda/${stem}.cu")
  endif()
  if(arg_REF)
    target_sources(mezzo PRIVATE "${root}/kernels/ref/${stem}.cpp")
  endif()
  foreach(op IN LISTS arg_OPS)
    set_property(GLOBAL APPEND_STRING PROPERTY MEZZO_REGISTRY_OPS "extern const OpDef ${op};\n")
    set(declarations "")
    set(cpu "nullptr")
    set(cuda "nullptr")
    set(ref "nullptr")
    if(arg_CPU)
      string(APPEND declarations "namespace kernels::cpu { extern const KernelList ${op}; }\n")
      set(cpu "&kernels::cpu::${op}")
    endif()
    if(arg_CUDA AND MEZZO_WITH_CUDA)
      string(APPEND declarations "namespace kernels::cuda { extern const KernelList ${op}; }\n")
      set(cuda "&kernels::cuda::${op}")
    endif()
    if(arg_REF)
      string(APPEND declarations "namespace kernels::ref { extern const RefKernel ${op}; }\n")
      set(ref "&kernels::ref::${op}")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY MEZZO_REGISTRY_DECLARATIONS "${declarations}")
    set_property(GLOBAL APPEND_STRING PROPERTY MEZZO_REGISTRY_ROWS
                 "    {&ops::${op}, {${cpu}, ${cuda}, ${ref}}},\n")
  endforeach()
endfunction()

function(mezzo_write_registry)
  get_property(ops GLOBAL PROPERTY MEZZO_REGISTRY_OPS)
  get_property(declarations GLOBAL PROPERTY MEZZO_REGISTRY_DECLARATIONS)
  get_property(rows GLOBAL PROPERTY MEZZO_REGISTRY_ROWS)
  # What a kind of device provides besides its kernels.
  set(cuda_declarations "")
  set(cuda_backend "nullptr")
  set(cuda_flat "kCpuKernels")
  if(MEZZO_WITH_CUDA)
    string(CONCAT cuda_declarations
      "namespace kernels::cuda { DeviceBackend& backend(); }\n"
      "namespace flat { extern const Kernels kCudaKernels; }\n")
    set(cuda_backend "&kernels::cuda::backend()")
    set(cuda_flat "kCudaKernels")
  endif()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/mezzo/ops/all.h" @ONLY CONTENT [=[
// Every operation by its name. Written by cmake/MezzoOps.cmake from the mezzo_add_op() lines of
// mezzo/ops/CMakeLists.txt.
#pragma once

#include "mezzo/ops/dispatcher/op.h"

namespace mezzo::ops {

@ops@
}  // namespace mezzo::ops
]=])
  target_include_directories(mezzo PRIVATE "${PROJECT_BINARY_DIR}/generated")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/registry.cpp" @ONLY CONTENT [=[
// Written by cmake/MezzoOps.cmake from the mezzo_add_op() lines of mezzo/ops/CMakeLists.txt.
#include "mezzo/ops/all.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/update/flat_kernels.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo {

@declarations@@cuda_declarations@
namespace {

const RegisteredOp kOps[] = {
@rows@};

}  // namespace

std::span<const RegisteredOp> registered_ops() { return kOps; }

DeviceBackend* find_device_backend(DeviceType type) {
  return type == DeviceType::kCuda ? @cuda_backend@ : nullptr;
}

const flat::Kernels& flat::kernels_on(Device device) {
  return device.type == DeviceType::kCuda ? @cuda_flat@ : kCpuKernels;
}

}  // namespace mezzo
]=])
  target_sources(mezzo PRIVATE "${PROJECT_BINARY_DIR}/generated/registry.cpp")
endfunction()
