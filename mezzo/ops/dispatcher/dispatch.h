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
// loop comes last. Outputs are allocated. Throws UnsupportedError with every kernel's reason if
// none fits. Refusals are logged under MEZZO_LOG=dispatch.
void run_kernel(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs);

// The kernel of a call, found once, for running it again on tensors that differ in their elements
// only.
class PreparedCall {
 public:
  // Throws UnsupportedError like run_kernel().
  PreparedCall(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs);
  void run(Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs) const;
  // True if the plain loop computes it, on the host, whatever the device.
  bool is_reference() const { return kernel_ == nullptr; }

 private:
  const OpDef* op_;
  const Kernel* kernel_;  // null: the plain loop
};

// Whether the kernel that such a call on a CPU takes normalises that input as it reads it: see
// Kernel::normalises. Looks at shapes, dtypes and layouts only; false for calls that none takes.
bool normalises_input(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs,
                      std::size_t input, bool adds);

// The result of such a call on a CPU, to be computed by rows (Kernel::rows), once what it reads is
// there; null if the kernel that takes it cannot. Looks at shapes, dtypes and layouts only.
std::unique_ptr<ResultRows> rows_of(const OpDef& op, Inputs inputs, std::span<Tensor> outputs,
                                    const Attrs& attrs);

// What can be switched off like a kernel and is none of an operation: no kernel has such a name.
struct Switch {
  static constexpr std::string_view kPack = "cpu_pack";  // weights packed by mezzo
  static constexpr std::string_view kNormRecompute = "cpu_norm_recompute";  // norms computed again
  static constexpr std::string_view kNormAhead = "cpu_norm_ahead";  // statistics by convolutions
  static constexpr std::string_view kGradRows = "cpu_grad_rows";    // gradients by their updates
  static constexpr std::array kAll{kPack, kNormRecompute, kNormAhead, kGradRows};
};

// Kernels that no call uses from now on, by name (`cpu_grad_weight`; `mezzo ops` lists them, and
// Switch has some more): the next in the list computes instead. At first those that the environment
// variable MEZZO_DISABLE_KERNELS names, separated by commas; a name that there is not draws a
// warning. For tests, and to see what a kernel brings. Not to be called while other threads
// compute.
void disable_kernels(std::vector<std::string> names);
// For kernels that choose between others.
bool is_kernel_disabled(std::string_view name);

}  // namespace mezzo
