// Counts how many times weights are packed.
#pragma once

#include <string_view>

#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::test {

// True if oneDNN's kernels want the weights of convolutions in layouts of their own. On Arm those
// of NEON read them as they lie, and those of SVE have reorders of their own.
#if defined(__aarch64__)
inline constexpr bool kOnednnWantsPackedWeights = false;
#else
inline constexpr bool kOnednnWantsPackedWeights = true;
#endif

// How often mezzo's own kernel packs a weight on this thread while it exists.
class PackCount final : public KernelListener {
 public:
  int count = 0;

 private:
  void on_run(const KernelWork& work, double /*ms*/) override {
    count += std::string_view(work.kernel) == "cpu_pack" ? 1 : 0;
  }
  ListenToKernels listening_{*this};
};

}  // namespace mezzo::test
