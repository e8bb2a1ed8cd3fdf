// Profiles a training step: its time by phase, operation, dtype and kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/amp/train_step.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::train {

// The peak rates that this machine reaches: the two sides of a roofline.
struct MachineRates {
  double flops_f32 = 0;   // per second, in a product of large matrices
  double flops_bf16 = 0;  // in bf16
  double bytes = 0;       // per second, read and written, in a copy larger than most caches
  double flops_f16 = 0;   // in f16; 0 for that of f32, in which CPUs compute f16
  Device device{};

  double flops(DType dtype) const {
    if (dtype == DType::kBf16) return flops_bf16;
    return dtype == DType::kF16 && flops_f16 > 0 ? flops_f16 : flops_f32;
  }
};

// Measures the rates; on the CPU with as many threads as kernels use. Takes about a second.
MachineRates measure_machine_rates(Device device);

// The runs of one kernel for one operation and dtype in one phase; all values are sums.
struct ProfileRow {
  amp::StepPhase phase = amp::StepPhase::kForward;
  std::string op{};
  DType dtype = DType::kF32;
  std::string kernel{};
  std::int64_t calls = 0;
  double ms = 0;
  double flops = 0;
  double bytes = 0;

  // The fraction of the time that the machine would need for the same operations and bytes at full
  // rates, whichever takes longer. It exceeds 1 if data come from the caches.
  double roofline(const MachineRates& rates) const;
};

// Collects the work of this thread's kernels while a ListenToKernels uses it as its listener.
class Profile final : public KernelListener {
 public:
  // Assigns what follows to that phase.
  void begin(amp::StepPhase phase) { phase_ = phase; }
  void on_run(const KernelWork& work, double ms) override;
  // Forgets everything.
  void reset() { rows_.clear(); }

  // Rows by phase, and within it the longest first.
  std::vector<ProfileRow> rows() const;

 private:
  ProfileRow& row_of(const KernelWork& work);

  amp::StepPhase phase_ = amp::StepPhase::kForward;
  std::vector<ProfileRow> rows_;  // by their first run; a network has some dozens
};

}  // namespace mezzo::train
