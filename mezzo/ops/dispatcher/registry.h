// All operations, from the list in mezzo/ops/CMakeLists.txt.
#pragma once

#include <span>
#include <string_view>

#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

struct KernelArgs;
struct KernelList;
struct RefArgs;
using RefKernel = void (*)(const RefArgs&);

// The kernels of one operation for each back end; null where a back end has none.
struct OpKernels {
  const KernelList* cpu = nullptr;
  const KernelList* cuda = nullptr;
  const RefKernel* ref = nullptr;

  const KernelList* on(DeviceType type) const { return type == DeviceType::kCpu ? cpu : cuda; }
};

struct RegisteredOp {
  const OpDef* op;
  OpKernels kernels;
};

std::span<const RegisteredOp> registered_ops();

// The operation of that name, or null.
const OpDef* find_op(std::string_view name);

// The kernels of an operation; looked up once, then remembered in `op`.
const OpKernels& kernels_of(const OpDef& op);

}  // namespace mezzo
