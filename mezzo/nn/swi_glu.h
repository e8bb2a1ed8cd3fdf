// The gated feed-forward layer of Llama.
#pragma once

#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

// down(silu(gate(x)) * up(x)) of x [..., size], where gate and up are linear layers to `hidden`
// features and down is one back to `size`: Shazeer, "GLU variants improve transformer", 2020,
// eq. 6. State, as in the Llama of Hugging Face: `gate_proj.*`, `up_proj.*`, `down_proj.*`. Throws
// ArgumentError like Linear.
class SwiGlu : public Module {
 public:
  SwiGlu(std::int64_t size, std::int64_t hidden, bool bias = false);

  Tensor forward(const Tensor& x) override;

 private:
  Linear gate_proj_;
  Linear up_proj_;
  Linear down_proj_;
};

}  // namespace mezzo::nn
