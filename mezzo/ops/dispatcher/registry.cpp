#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo {

const OpDef* find_op(std::string_view name) {
  for (const RegisteredOp& entry : registered_ops()) {
    if (entry.op->name == name) return entry.op;
  }
  return nullptr;
}

const OpKernels& kernels_of(const OpDef& op) {
  const OpKernels* kernels = op.kernels.load(std::memory_order_acquire);
  if (kernels != nullptr) return *kernels;
  for (const RegisteredOp& entry : registered_ops()) {
    if (entry.op == &op) {
      op.kernels.store(&entry.kernels, std::memory_order_release);
      return entry.kernels;
    }
  }
  fail<UnsupportedError>(op.name, "is not registered. List it with mezzo_add_op()");
}

}  // namespace mezzo
