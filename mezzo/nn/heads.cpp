#include "mezzo/nn/heads.h"

#include "mezzo/ops/shape_ops.h"

namespace mezzo::nn {

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  check_arg(x.rank() == 3, "attention", "x must be [batch, tokens, features], the shape is ",
            x.shape(), ". Use reshape()");
  const std::int64_t features = x.size(2);
  check_arg(heads > 0 && features % heads == 0, "attention", features,
            " features cannot be divided among ", heads, " heads. Choose a divisor");
  return permute(reshape(x, {x.size(0), x.size(1), heads, features / heads}), {0, 2, 1, 3});
}

Tensor merge_heads(const Tensor& x) {
  const Tensor by_token = permute(x, {0, 2, 1, 3});
  return reshape(by_token,
                 {by_token.size(0), by_token.size(1), by_token.size(2) * by_token.size(3)});
}

}  // namespace mezzo::nn
