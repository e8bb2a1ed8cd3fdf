#include "mezzo/nn/swi_glu.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::nn {

SwiGlu::SwiGlu(std::int64_t size, std::int64_t hidden, bool bias)
    : gate_proj_(size, hidden, bias), up_proj_(size, hidden, bias), down_proj_(hidden, size, bias) {
  add("gate_proj", gate_proj_);
  add("up_proj", up_proj_);
  add("down_proj", down_proj_);
}

Tensor SwiGlu::forward(const Tensor& x) { return down_proj_(silu(gate_proj_(x)) * up_proj_(x)); }

}  // namespace mezzo::nn
