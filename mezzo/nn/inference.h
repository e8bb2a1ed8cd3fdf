// Inference: running a network without training it.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/grad_mode.h"

namespace mezzo::nn {

// While it exists, the network is in inference mode and this thread records nothing. Afterwards the
// whole network is in the mode that it was in itself.
class Inference {
 public:
  explicit Inference(Module& net) : net_(net), was_training_(net.is_training()) { net_.eval(); }
  ~Inference() { net_.train(was_training_); }
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

 private:
  NoGrad no_grad_;
  Module& net_;
  bool was_training_;
};

}  // namespace mezzo::nn
