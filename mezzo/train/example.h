// What the network of a run reads: images or sequences of tokens.
#pragma once

#include <cstdint>

#include "mezzo/data/dataset.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

// The shape of an example is [channels, height, width] of an image, or [tokens] of a sequence.
struct ExampleKind {
  Shape shape{};
  std::int64_t classes = 0;      // of the labels
  std::int64_t vocabulary = 0;   // of tokens
  bool predicts_tokens = false;  // the label of each token is the next one, not one for all

  bool is_tokens() const { return shape.rank() == 1; }
};

// What the model of a run usually reads, with the image size or the number of tokens of the
// options. Throws ArgumentError for an image size where the model reads tokens, and the reverse,
// and for a model that does not exist.
ExampleKind usual_example(const RunOptions& options);

// Zeros for n examples of that shape: f32 images, or i64 tokens.
Tensor zero_examples(const Shape& shape, std::int64_t n, Device device);

// n made-up examples with labels: normal pixels, or tokens in random order; classes in turn, or
// the tokens that follow.
data::Batch generated_batch(const ExampleKind& kind, std::int64_t n);

// `images` or `sequences`.
const char* name_of_examples(const Shape& shape);

}  // namespace mezzo::train
