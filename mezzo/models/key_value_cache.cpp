#include "mezzo/models/key_value_cache.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {

namespace {

void check_sequences(std::int64_t cached, std::int64_t more) {
  check_arg(cached == more, "KeyValues", "the cache is of ", cached,
            " sequences, the tokens are of ", more, ". Use a cache per batch");
}

}  // namespace

void KeyValues::append(const Tensor& more_keys, const Tensor& more_values) {
  if (!keys.defined()) {
    keys = more_keys;
    values = more_values;
    return;
  }
  check_sequences(keys.size(0), more_keys.size(0));
  keys = cat({keys, more_keys}, 2);
  values = cat({values, more_values}, 2);
}

std::int64_t KeyValueCache::length() const {
  return layers_.empty() ? 0 : layers_.front().length();
}

void KeyValueCache::clear() { *this = KeyValueCache(); }

KeyValues& KeyValueCache::layer(std::size_t i) {
  if (i >= layers_.size()) layers_.resize(i + 1);
  layers_[i].positions = positions_;
  layers_[i].mask = mask_;
  return layers_[i];
}

namespace {

void check_counts(const Tensor& tokens, std::span<const std::int64_t> counts) {
  check_arg(counts.empty() || static_cast<std::int64_t>(counts.size()) == tokens.size(0),
            "KeyValueCache", "there are ", counts.size(), " counts for the ", tokens.size(0),
            " sequences of the tokens. Give one for each, or none");
  for (const std::int64_t count : counts) {
    check_arg(count >= 1 && count <= tokens.size(1), "KeyValueCache", "a sequence has ", count,
              " of ", tokens.size(1), " tokens. Give one at least, and no more than there are");
  }
}

}  // namespace

void KeyValueCache::expect(const Tensor& tokens, std::span<const std::int64_t> counts) {
  check_counts(tokens, counts);
  positions_ = last_ = mask_ = Tensor();
  const std::int64_t t = tokens.size(1);
  const bool is_whole = std::ranges::all_of(counts, [&](std::int64_t n) { return n == t; });
  const auto rows = static_cast<std::size_t>(tokens.size(0));
  const auto columns = static_cast<std::size_t>(length());
  if (columns == 0) is_token_.clear();
  if (is_token_.empty() && is_whole) return;
  if (is_token_.empty()) is_token_.assign(rows, std::vector<bool>(columns, true));
  check_sequences(static_cast<std::int64_t>(is_token_.size()), tokens.size(0));
  std::vector<std::int64_t> positions;
  std::vector<std::int64_t> last;
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<bool>& is_token = is_token_[row];
    is_token.resize(columns);  // without what was expected, but not read because of an error
    const std::int64_t first = std::ranges::count(is_token, true);
    const std::int64_t count = counts.empty() ? t : counts[row];
    for (std::int64_t i = 0; i < t; ++i) {
      is_token.push_back(i < count);
      positions.push_back(first + std::min(i, count - 1));
    }
    last.push_back(static_cast<std::int64_t>(row) * t + count - 1);
  }
  positions_ = from_values(positions, tokens.shape()).to(tokens.device());
  last_ = from_values(last, {tokens.size(0)}).to(tokens.device());
  // What the first tokens must not see comes after them.
  if (columns > 0) mask_ = mask_of_columns().to(tokens.device());
}

Tensor KeyValueCache::mask_of_columns() const {
  const auto rows = static_cast<std::int64_t>(is_token_.size());
  const auto columns = static_cast<std::int64_t>(is_token_.front().size());
  Tensor mask = empty({rows, 1, 1, columns}, DType::kBool);
  auto* element = mask.mutable_data<bool>();
  for (const std::vector<bool>& row : is_token_) element = std::ranges::copy(row, element).out;
  return mask;
}

}  // namespace mezzo::models
