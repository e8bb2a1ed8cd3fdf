// Finding and running the kernel of a call.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

struct Kernel;
class ResultRows;

// Runs the first kernel of the inputs' device that supports the call; the plain double-precision
// loop comes last. Outputs are already allocated. Throws UnsupportedError with every kernel's
// reason if none fits. Refusals are logged under MEZZO_LOG=dispatch.
void run_kernel(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs);

// The kernel of a call, chosen once, to be run again on tensors that differ only in their elements.
class PreparedCall {
 public:
  // Throws UnsupportedError like run_kernel().
  PreparedCall(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs);
  void run(Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs) const;
  // True if the plain loop computes it on the host, whatever the device.
  bool is_reference() const { return kernel_ == nullptr; }

 private:
  const OpDef* op_;
  const Kernel* kernel_;  // null: the plain loop
};

// Whether the kernel for such a call on a CPU normalises that input as it reads it: see
// Kernel::normalises. Only shapes, dtypes and layouts matter; false for calls without a kernel.
bool normalises_input(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs,
                      std::size_t input, bool adds);

// The result of such a call on a CPU as rows to be computed later (Kernel::rows), once the inputs
// are there; null if the kernel cannot. Only shapes, dtypes and layouts matter.
std::unique_ptr<ResultRows> rows_of(const OpDef& op, Inputs inputs, std::span<Tensor> outputs,
                                    const Attrs& attrs);

// Features that can be disabled like kernels but are not kernels; no kernel has such a name.
struct Switch {
  static constexpr std::string_view kPack = "cpu_pack";  // weights packed by mezzo
  // recomputing normalisations
  static constexpr std::string_view kNormRecompute = "cpu_norm_recompute";
  // statistics computed by convolutions
  static constexpr std::string_view kNormAhead = "cpu_norm_ahead";
  // gradients computed row by row within updates
  static constexpr std::string_view kGradRows = "cpu_grad_rows";
  static constexpr std::array kAll{kPack, kNormRecompute, kNormAhead, kGradRows};
};

// Disables kernels by name (`cpu_grad_weight`; `mezzo ops` lists them, and Switch has some more)
// from now on: the next kernel in the list computes instead. Initially, those in the environment
// variable MEZZO_DISABLE_KERNELS, separated by commas, are disabled; an unknown name causes a
// warning. For tests, and to measure the effect of a kernel. Must not be called while other threads
// compute.
void disable_kernels(std::vector<std::string> names);
// For kernels that choose between others.
bool is_kernel_disabled(std::string_view name);

}  // namespace mezzo
