#include "mezzo/train/example.h"

#include "mezzo/core/random.h"
#include "mezzo/models/model.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::train {
namespace {

// Tokens drawn from default_generator(), all with the same probability.
Tensor generated_tokens(const Shape& shape, std::int64_t vocabulary) {
  Tensor tokens = empty(shape, DType::kI64);
  auto* token = tokens.mutable_data<std::int64_t>();
  // A uniform number has 24 bits, more than vocabularies have.
  const std::vector<float> uniform = rand(shape).to_vector<float>();
  for (std::size_t i = 0; i < uniform.size(); ++i) {
    token[i] = static_cast<std::int64_t>(static_cast<double>(uniform[i]) *
                                         static_cast<double>(vocabulary));
  }
  return tokens;
}

data::Batch generated_sequences(const ExampleKind& kind, std::int64_t n) {
  const std::int64_t t = kind.shape[0];
  const Tensor tokens = generated_tokens({n, t + 1}, kind.classes);
  data::Batch batch;
  batch.images = contiguous(slice(tokens, 1, 0, t));
  batch.labels = contiguous(slice(tokens, 1, 1, t + 1));
  return batch;
}

}  // namespace

ExampleKind usual_example(const RunOptions& options) {
  const models::ModelConfig usual = models::usual_config(options.model);
  if (usual.is_for_tokens()) {
    check_arg(options.image_size == 0, "--image-size", options.model,
              " reads tokens, not images. Use --tokens");
    return {{options.tokens > 0 ? options.tokens : usual.tokens}, usual.vocabulary};
  }
  check_arg(options.tokens == 0, "--tokens", options.model,
            " reads images, not tokens. Use --image-size");
  const std::int64_t size = options.image_size > 0 ? options.image_size : usual.image_size;
  return {{usual.in_channels, size, size}, usual.num_classes};
}

void check_reads_images(const RunOptions& options) {
  check_arg(!models::usual_config(options.model).is_for_tokens(), "--model", options.model,
            " reads tokens, and the data sets here have images. `mezzo bench` and `mezzo plan` run "
            "it on made-up tokens; train it on your own in a program, as examples/gpt.cpp does");
}

Tensor zero_examples(const Shape& shape, std::int64_t n, Device device) {
  Shape all{n};
  for (const std::int64_t size : shape) all.push_back(size);
  const DType dtype = shape.rank() == 1 ? DType::kI64 : DType::kF32;
  return zeros(all, dtype, Format::kContiguous, device);
}

data::Batch generated_batch(const ExampleKind& kind, std::int64_t n) {
  if (kind.is_tokens()) return generated_sequences(kind, n);
  data::Batch batch;
  const Shape& image = kind.shape;
  batch.images = to_format(randn({n, image[0], image[1], image[2]}), Format::kChannelsLast);
  batch.labels = empty({n}, DType::kI64);
  auto* label = batch.labels.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) label[i] = i % kind.classes;
  return batch;
}

const char* name_of_examples(const Shape& shape) {
  return shape.rank() == 1 ? "sequences" : "images";
}

}  // namespace mezzo::train
