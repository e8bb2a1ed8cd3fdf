// What a language model keeps of the tokens that it has read, so as not to read them again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::models {

// The keys and values of one attention layer: [b, h, s, d] of s tokens, in the dtype in which the
// layer computed them. Undefined at first.
struct KeyValues {
  Tensor keys{};
  Tensor values{};
  // Of the tokens that come next, where sequences differ in length; else undefined. See
  // KeyValueCache::expect().
  Tensor positions{};
  Tensor mask{};

  // The number of tokens, padding included.
  std::int64_t length() const { return keys.defined() ? keys.size(2) : 0; }
  // Appends those of more tokens. Throws ArgumentError for another number of sequences.
  void append(const Tensor& more_keys, const Tensor& more_values);
};

// The keys and values of all layers of a network. It takes 2 * layers * b * h * s * d elements.
//
// Sequences may differ in length. They are read together all the same, in a rectangle [b, t] whose
// rows end in padding. Causal attention hides padding from the tokens before it; from later tokens
// the mask hides it.
class KeyValueCache {
 public:
  // The number of tokens that each sequence has so far, padding included.
  std::int64_t length() const;
  // Forgets all tokens.
  void clear();

  // For models, before their layers read tokens [b, t] that follow: row i has counts[i] of them,
  // 1 to t, and then padding; without counts, t in every row. Throws ArgumentError for counts that
  // do not fit.
  void expect(const Tensor& tokens, std::span<const std::int64_t> counts);
  // The positions of the expected tokens, i64 [b, t]; undefined where they are length(),
  // length() + 1, ... in all rows. Padding has that of the last token before it.
  const Tensor& positions() const { return positions_; }
  // The numbers of the last tokens of the rows, i64 [b], in x [b * t, ...]; undefined where they
  // are the last ones of x [b, t, ...].
  const Tensor& last() const { return last_; }

  // Those of layer i, which may be new. A layer that follows may invalidate the reference.
  KeyValues& layer(std::size_t i);

 private:
  Tensor mask_of_columns() const;

  std::vector<KeyValues> layers_;
  // Which columns of a row are tokens; empty while none is padding.
  std::vector<std::vector<bool>> is_token_;
  Tensor positions_;
  Tensor last_;
  Tensor mask_;  // bool [b, 1, 1, s]: the keys that the expected tokens may see, theirs included
};

}  // namespace mezzo::models
