// The gradient of attention.
#pragma once

#include "mezzo/ops/attention_attrs.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {

// Sets the gradients of a call of `attention`: by one kernel that makes the probabilities again
// from q, k and the saved log-sum-exp, or by differentiable operations where the gradients will be
// differentiated again.
void attention_backward(Backward& ctx);

// The dtype of log-sum-exp and of a floating mask, for q, k and v of that dtype.
inline DType attention_statistics_dtype(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// The checks that the operation and its gradient share; q, k, v and mask are the inputs from number
// `q` on. Throws ArgumentError. Returns the sizes.
AttentionSizes check_attention(const Infer& infer, std::size_t q, const AttentionAttrs& attrs);

// The calls that both definitions are tested with: sizes, and what hides keys.
struct AttentionCase {
  std::int64_t batch = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t features = 8;
  std::int64_t values = 8;
  AttentionAttrs attrs{};
  Shape mask{};  // the mask's shape; none if empty
  bool boolean = false;

  AttentionSizes sizes() const {
    return {{batch, queries, heads, features},
            {batch, keys, key_heads, features},
            {batch, keys, key_heads, values}};
  }
  // The inputs q, k, v and mask.
  std::vector<SampleInput> inputs() const;
};
std::vector<AttentionCase> attention_cases();
// A call as a sample of `attention`, and of `attention_grad`.
Sample attention_sample(const AttentionCase& c);
Sample attention_grad_sample(const AttentionCase& c);

}  // namespace mezzo
