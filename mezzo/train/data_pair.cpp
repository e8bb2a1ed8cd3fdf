#include "mezzo/train/data_pair.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/token_batches.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/fine_tuning.h"
#include "mezzo/train/metrics.h"

namespace mezzo::train {
namespace {

data::OpenOptions open_options(const RunOptions& options) {
  return {.image_size = options.image_size,
          .augment = options.augment,
          .bad_images = options.bad_images};
}

data::Shard shard_of(const RunOptions& options) {
  return options.processes != nullptr ? data::shard_of(*options.processes) : data::Shard{};
}

// These options would change nothing.
void check_no_image_options(const RunOptions& options) {
  const auto check = [&](bool is_unused, const char* option) {
    check_arg(is_unused, option, "is for images, and ", options.model,
              " reads tokens. Leave it out");
  };
  check(options.mix.mixup == 0, "--mixup");
  check(options.mix.cutmix == 0, "--cutmix");
  check(options.augment, "--no-augment");
  check(options.bad_images == data::BadImages::kError, "--bad-images");
  check(options.loss.class_weights.empty() && !options.loss.balances_classes, "--class-weights");
}

// The vocabulary of the model of a run.
std::int64_t vocabulary_of(const RunOptions& options) { return usual_example(options).vocabulary; }

std::unique_ptr<data::BatchSource> batches_of(const data::TokenSet& tokens,
                                              const RunOptions& options, bool is_training) {
  return std::make_unique<data::TokenBatches>(
      tokens, data::TokenBatchesOptions{.batch_size = options.batch_size,
                                        .length = usual_example(options).shape[0],
                                        .shuffle = is_training && options.shuffle,
                                        .drop_remainder = is_training,
                                        .seed = options.seed,
                                        .shard = shard_of(options)});
}

std::unique_ptr<data::BatchSource> batches_of(const data::Dataset& images,
                                              const RunOptions& options, bool is_training) {
  return std::make_unique<data::DataLoader>(
      images, data::LoaderOptions{.batch_size = options.batch_size,
                                  .shuffle = is_training && options.shuffle,
                                  .drop_remainder = is_training,
                                  .seed = is_training ? options.seed : 0,
                                  .workers = options.workers,
                                  .device = options.device,
                                  .mix = is_training ? options.mix : data::Mix{},
                                  .shard = shard_of(options)});
}

}  // namespace

DataPair open_data(const std::string& spec, const data::OpenOptions& options) {
  DataPair data{data::open_dataset(spec, data::Split::kTrain, options),
                data::open_dataset(spec, data::Split::kTest, options)};
  // Otherwise the first evaluation would fail, in terms of a network's layer.
  const Shape train = data.train->image_shape();
  const Shape test = data.test->image_shape();
  check_arg(train == test, "data", spec, ": training images are ", train, ", test images ", test,
            ". Bring them to one size with --image-size, or use files of one set");
  return data;
}

DataPair open_data(const RunOptions& options) {
  check_data(options);
  if (!data::names_tokens(options.data)) return open_data(options.data, open_options(options));
  // First, since a fault in it concerns more of the run.
  auto train = data::open_tokens(options.data, data::Split::kTrain, vocabulary_of(options));
  DataPair data = open_test_data(options);
  data.train_tokens = std::move(train);
  return data;
}

DataPair open_test_data(const RunOptions& options) {
  check_data(options);
  DataPair data;
  if (data::names_tokens(options.data)) {
    data.test_tokens = data::open_tokens(options.data, data::Split::kTest, vocabulary_of(options));
  } else {
    data.test = data::open_dataset(options.data, data::Split::kTest, open_options(options));
  }
  return data;
}

void check_data(const RunOptions& options) {
  const ExampleKind kind = usual_example(options);
  const bool has_tokens = data::names_tokens(options.data);
  if (!kind.is_tokens()) {
    check_arg(!has_tokens, "--data", options.model, " reads images, and ", options.data,
              " has tokens. Use ", data::kImageSetNames);
    return;
  }
  check_arg(kind.predicts_tokens, "--model", options.model,
            " classifies sequences, and the data sets here have no sequences with classes. `mezzo "
            "bench`, `mezzo plan` and `mezzo export` take it with --tokens; train it on your own "
            "in a program, as examples/sequence_lengths.cpp does");
  check_arg(has_tokens, "--data", options.model, " reads tokens, and ", options.data,
            " has none. Use ", data::kTokenSetNames);
  check_no_image_options(options);
  check_arg(metric_name(options.watch.monitor) != "accuracy", "--monitor", options.model,
            " has no accuracy. Use loss");
}

ExampleKind example_of(const RunOptions& options, const DataPair& data) {
  if (data.test == nullptr) return usual_example(options);
  return {.shape = data.test->image_shape(), .classes = data.test->num_classes()};
}

void fit_to_data(RunOptions& options, const DataPair& data) {
  const Shape shape = example_of(options, data).shape;
  if (shape.rank() == 1) {
    options.tokens = shape[0];
  } else {
    set_image_size(options, shape);
  }
}

void set_class_weights(LossOptions& loss, const DataPair& data) {
  if (data.has_tokens()) return;
  set_class_weights(loss, *data.train);
  check_class_weights(loss, *data.train, "training");
  check_class_weights(loss, *data.test, "test");
}

std::int64_t examples_per_epoch(const RunOptions& options, const DataPair& data) {
  if (!data.has_tokens()) return data.train->size();
  return data::sequences_in(*data.train_tokens, usual_example(options).shape[0]);
}

std::unique_ptr<data::BatchSource> training_batches(const RunOptions& options,
                                                    const DataPair& data) {
  return data.has_tokens() ? batches_of(*data.train_tokens, options, true)
                           : batches_of(*data.train, options, true);
}

std::unique_ptr<data::BatchSource> test_batches(const RunOptions& options, const DataPair& data) {
  return data.test == nullptr ? batches_of(*data.test_tokens, options, false)
                              : batches_of(*data.test, options, false);
}

}  // namespace mezzo::train
