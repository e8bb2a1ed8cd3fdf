#include "mezzo/data/tensor_batches.h"

#include <string_view>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/rows.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kBatchesOp = "TensorBatches";

std::int64_t rows_of_both(const Tensor& inputs, const Tensor& labels) {
  check_rows(kBatchesOp, inputs, "inputs");
  check_rows(kBatchesOp, labels, "labels");
  check_arg(inputs.size(0) == labels.size(0), kBatchesOp, "there are ", inputs.size(0),
            " inputs and ", labels.size(0), " labels. Give a label for each input");
  return inputs.size(0);
}

std::int64_t rows_of_one(const Tensor& inputs) {
  check_rows(kBatchesOp, inputs, "inputs");
  return inputs.size(0);
}

std::int64_t rows_of_first(const std::vector<Tensor>& inputs) {
  check_arg(!inputs.empty(), kBatchesOp, "there are no inputs. Give at least one");
  return rows_of_one(inputs.front());
}

void check_further(const Tensor& inputs, const std::vector<Tensor>& further, const char* kind) {
  for (std::size_t i = 0; i < further.size(); ++i) {
    check_rows(kBatchesOp, further[i], concat("the rows of further ", kind, " ", i));
    check_arg(further[i].size(0) == inputs.size(0), kBatchesOp, "there are ", inputs.size(0),
              " inputs, and further ", kind, " ", i, " has ", further[i].size(0),
              " rows. Give a row for each input");
  }
}

}  // namespace

BatchOrder order_of(std::int64_t examples, const TensorBatchesOptions& options) {
  return {.examples = examples,
          .batch_size = options.batch_size,
          .shuffle = options.shuffle,
          .drop_remainder = options.drop_remainder,
          .seed = options.seed,
          .shard = options.shard,
          .sampler = options.sampler};
}

TensorBatches::TensorBatches(const Tensor& inputs, const Tensor& labels,
                             TensorBatchesOptions options)
    : TensorBatches(inputs, labels, std::vector<Tensor>(), std::move(options)) {}

TensorBatches::TensorBatches(const Tensor& inputs, const Tensor& labels, std::vector<Tensor> more,
                             TensorBatchesOptions options)
    : BatchSource(order_of(rows_of_both(inputs, labels), options)),
      inputs_(inputs),
      labels_(labels),
      more_(std::move(more)) {
  check_further(inputs, more_, "tensor");
}

TensorBatches::TensorBatches(const std::vector<Tensor>& inputs, const std::vector<Tensor>& labels,
                             const TensorBatchesOptions& options)
    : BatchSource(order_of(rows_of_first(inputs), options)),
      inputs_(inputs.front()),
      labels_(labels.empty() ? Tensor() : labels.front()),
      more_(inputs.begin() + 1, inputs.end()),
      more_labels_(labels.empty() ? labels.begin() : labels.begin() + 1, labels.end()) {
  check_further(inputs_, more_, "tensor");
  check_further(inputs_, labels, "labels");
}

TensorBatches::TensorBatches(const Tensor& inputs, TensorBatchesOptions options)
    : BatchSource(order_of(rows_of_one(inputs), options)), inputs_(inputs) {}

Batch TensorBatches::take_batch() {
  Batch batch{.indices = indices_of(position().step)};
  batch.images = take_rows(inputs_, batch.indices);
  if (labels_.defined()) batch.labels = take_rows(labels_, batch.indices);
  for (const Tensor& tensor : more_) batch.more.push_back(take_rows(tensor, batch.indices));
  for (const Tensor& tensor : more_labels_) {
    batch.more_labels.push_back(take_rows(tensor, batch.indices));
  }
  return batch;
}

}  // namespace mezzo::data
