#include "mezzo/data/token_batches.h"

#include <algorithm>
#include <span>
#include <vector>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

BatchOrder order_of(const TokenSet& tokens, const TokenBatchesOptions& options) {
  const std::int64_t length = options.length;
  check_arg(length >= 1, "tokens", "sequences must have at least 1 token: ", length);
  check_arg(tokens.size() > length, "tokens", tokens.name(), ": has ", tokens.size(),
            tokens.size() == 1 ? " token" : " tokens", ", too few for a sequence of ", length,
            " and the token after it. Use a longer text, or shorter sequences");
  const std::int64_t sequences = sequences_in(tokens, length);
  return {.examples = options.shuffle ? tokens.size() - length : sequences,
          .batch_size = options.batch_size,
          .shuffle = options.shuffle,
          .drop_remainder = options.drop_remainder,
          .seed = options.seed,
          .shard = options.shard,
          .draws = options.shuffle ? sequences : 0};
}

}  // namespace

std::int64_t sequences_in(const TokenSet& tokens, std::int64_t length) {
  return (tokens.size() - 1) / length;
}

TokenBatches::TokenBatches(const TokenSet& tokens, TokenBatchesOptions options)
    : BatchSource(order_of(tokens, options)), tokens_(tokens), length_(options.length) {}

Batch TokenBatches::take_batch() {
  Batch batch{.indices = indices_of(position().step)};
  const auto count = static_cast<std::int64_t>(batch.indices.size());
  batch.images = empty({count, length_}, DType::kI64);
  batch.labels = empty({count, length_}, DType::kI64);
  auto* input = batch.images.mutable_data<std::int64_t>();
  auto* label = batch.labels.mutable_data<std::int64_t>();
  std::vector<std::int64_t> sequence(static_cast<std::size_t>(length_ + 1));
  for (const std::int64_t index : batch.indices) {
    tokens_.read(order().shuffle ? index : index * length_, sequence);
    input = std::copy(sequence.begin(), sequence.end() - 1, input);
    label = std::copy(sequence.begin() + 1, sequence.end(), label);
  }
  return batch;
}

}  // namespace mezzo::data
