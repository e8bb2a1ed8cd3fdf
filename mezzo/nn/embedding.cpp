#include "mezzo/nn/embedding.h"

#include "mezzo/nn/init.h"
#include "mezzo/ops/indexing.h"

namespace mezzo::nn {

Embedding::Embedding(std::int64_t count, std::int64_t size) {
  check_arg(count > 0 && size > 0, "Embedding", "sizes must be positive: ", count, " rows of ",
            size);
  weight_ = empty({count, size});
  init::normal(weight_, 0, 1);
  add_parameter("weight", weight_);
}

Tensor Embedding::forward(const Tensor& x) { return embedding(weight_, x); }

}  // namespace mezzo::nn
