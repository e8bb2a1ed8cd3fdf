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

Tensor labels_in_turn(std::int64_t n, std::int64_t classes) {
  Tensor labels = empty({n}, DType::kI64);
  auto* label = labels.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) label[i] = i % classes;
  return labels;
}

}  // namespace

ExampleKind usual_example(const RunOptions& options) {
  const models::ModelConfig usual = models::usual_config(options.model);
  if (usual.is_for_tokens()) {
    check_arg(options.image_size == 0, "--image-size", options.model,
              " reads tokens, not images. Use --tokens");
    const bool predicts = models::predicts_tokens(options.model);
    return {.shape = {options.tokens > 0 ? options.tokens : usual.tokens},
            .classes = predicts ? usual.vocabulary : usual.num_classes,
            .vocabulary = usual.vocabulary,
            .predicts_tokens = predicts};
  }
  check_arg(options.tokens == 0, "--tokens", options.model,
            " reads images, not tokens. Use --image-size");
  const std::int64_t size = options.image_size > 0 ? options.image_size : usual.image_size;
  return {.shape = {usual.in_channels, size, size}, .classes = usual.num_classes};
}

Tensor zero_examples(const Shape& shape, std::int64_t n, Device device) {
  Shape all{n};
  for (const std::int64_t size : shape) all.push_back(size);
  const DType dtype = shape.rank() == 1 ? DType::kI64 : DType::kF32;
  return zeros(all, dtype, Format::kContiguous, device);
}

data::Batch generated_batch(const ExampleKind& kind, std::int64_t n) {
  const Shape& shape = kind.shape;
  data::Batch batch;
  if (!kind.is_tokens()) {
    batch.images = to_format(randn({n, shape[0], shape[1], shape[2]}), Format::kChannelsLast);
    batch.labels = labels_in_turn(n, kind.classes);
    return batch;
  }
  const Tensor tokens = generated_tokens({n, shape[0] + 1}, kind.vocabulary);
  batch.images = contiguous(slice(tokens, 1, 0, shape[0]));
  batch.labels = kind.predicts_tokens ? contiguous(slice(tokens, 1, 1, shape[0] + 1))
                                      : labels_in_turn(n, kind.classes);
  return batch;
}

const char* name_of_examples(const Shape& shape) {
  return shape.rank() == 1 ? "sequences" : "images";
}

}  // namespace mezzo::train
