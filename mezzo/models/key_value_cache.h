// What a language model keeps of the tokens that it has read, so as not to read them again.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::models {

// The keys and values of one attention layer: [b, h, s, d] of s tokens, in the dtype in which the
// layer computed them. Undefined at first.
struct KeyValues {
  Tensor keys{};
  Tensor values{};

  // The number of tokens.
  std::int64_t length() const { return keys.defined() ? keys.size(2) : 0; }
  // Appends those of more tokens. Throws ArgumentError for another number of sequences.
  void append(const Tensor& more_keys, const Tensor& more_values);
};

// The keys and values of all layers of a network. It takes 2 * layers * b * h * s * d elements.
class KeyValueCache {
 public:
  // The number of tokens that each sequence has so far.
  std::int64_t length() const;
  // Forgets all tokens.
  void clear() { layers_.clear(); }

  // Those of layer i, which may be new. A layer that follows may invalidate the reference.
  KeyValues& layer(std::size_t i);

 private:
  std::vector<KeyValues> layers_;
};

}  // namespace mezzo::models
