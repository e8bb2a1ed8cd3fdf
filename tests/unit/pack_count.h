// Counts how many times weights are packed.
#pragma once

#include <string_view>

#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::test {

// Counts how many times mezzo's own kernel packs a weight on this thread while it exists.
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
