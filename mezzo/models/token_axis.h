// What language models do to the axis of tokens.
#pragma once

#include "mezzo/core/error.h"
#include "mezzo/models/key_value_cache.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {

// Throws ArgumentError unless the shape is [sequences, tokens].
inline void check_token_shape(const Tensor& tokens, const char* name) {
  check_arg(tokens.rank() == 2, name, "tokens must be [sequences, tokens], the shape is ",
            tokens.shape(), ". Use reshape()");
}

// For next_logits(): there must also be a token.
inline void check_next_tokens(const Tensor& tokens, const char* name) {
  check_token_shape(tokens, name);
  check_arg(tokens.size(1) > 0, name, "there is no token to go on from. Give one at least");
}

// The last token's part [b, width] of x [b, t, width].
inline Tensor last_token(const Tensor& x) {
  const std::int64_t tokens = x.size(1);
  return flatten(slice(x, 1, tokens - 1, tokens), 0, 1);
}

// The same for the tokens that the cache expects, some of which may be padding.
inline Tensor last_token(const Tensor& x, const KeyValueCache& cache) {
  return cache.last().defined() ? embedding(flatten(x, 0, 1), cache.last()) : last_token(x);
}

}  // namespace mezzo::models
