// Inference: running a network without training it.
#pragma once

#include <utility>
#include <vector>

#include "mezzo/nn/module.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::nn {

// While it exists, the network is in inference mode and this thread records nothing. Afterwards
// every module returns to its own previous mode: frozen layers stay frozen.
//
// A module has one mode for all threads. If the whole network is in inference mode already, nothing
// is written.
class Inference {
 public:
  explicit Inference(Module& net) {
    bool any = false;
    net.apply([&](Module& module) {
      any = any || module.is_training();
      modes_.emplace_back(&module, module.is_training());
    });
    if (any) net.eval();
  }
  ~Inference() {
    // Parents first, because train() also sets all modules below.
    for (auto entry = modes_.rbegin(); entry != modes_.rend(); ++entry) {
      const auto& [module, was_training] = *entry;
      if (module->is_training() != was_training) module->train(was_training);
    }
  }
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

 private:
  NoGrad no_grad_;
  std::vector<std::pair<Module*, bool>> modes_;  // children before their parents
};

}  // namespace mezzo::nn
