// Networks that predict the next token.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/models/key_value_cache.h"

namespace mezzo::models {

// The interface of language models that can go on from tokens which they have read before.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // tokens: i64 [b, t], t >= 1, which follow those of the cache. The logits of the token after the
  // last one, [b, vocabulary], are those of the forward pass over all tokens so far, up to the
  // order in which products are summed. Afterwards the cache has these tokens, too. It serves in
  // eval() mode, without gradients. Throws ArgumentError if more tokens come together than the
  // network has positions.
  //
  // With `counts`, row i has only the first counts[i] of the tokens; the rest is padding, any
  // tokens of the vocabulary. The logits are those after its last token, and the same, up to the
  // order in which products are summed, as those of the row alone. Throws ArgumentError unless
  // there is a count in [1, t] for each row.
  virtual Tensor next_logits(const Tensor& tokens, KeyValueCache& cache,
                             std::span<const std::int64_t> counts) = 0;
  // The same without padding.
  Tensor next_logits(const Tensor& tokens, KeyValueCache& cache) {
    return next_logits(tokens, cache, {});
  }

  // The number of kinds of tokens.
  virtual std::int64_t vocabulary() const = 0;
  // The length of the longest sequence; 0 where nothing limits it.
  virtual std::int64_t longest_sequence() const = 0;
};

}  // namespace mezzo::models
