#include "mezzo/data/split.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "mezzo/core/error.h"
#include "mezzo/data/rows.h"
#include "mezzo/data/shuffle.h"
#include "mezzo/data/stream.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kSplitOp = "split";

// The square of this number still fits in 64 bits.
constexpr std::int64_t kMostStratified = 3'000'000'000;

using Counts = std::vector<std::int64_t>;

Counts counts_of_fractions(std::int64_t examples, const std::vector<double>& fractions) {
  double sum = 0;
  for (const double fraction : fractions) {
    check_arg(fraction > 0 && fraction <= 1, kSplitOp,
              "a fraction must be above 0 and at most 1: ", fraction);
    sum += fraction;
  }
  // Each addition rounds once, and so did each fraction.
  const double rounding =
      static_cast<double>(2 * fractions.size()) * std::numeric_limits<double>::epsilon();
  check_arg(std::abs(sum - 1) <= rounding, kSplitOp, "the fractions add up to ", sum,
            ". They must add up to 1");
  Counts counts;
  std::int64_t left = examples;
  for (const double fraction : fractions) {
    counts.push_back(std::min(
        left, static_cast<std::int64_t>(std::floor(static_cast<double>(examples) * fraction))));
    left -= counts.back();
  }
  for (std::size_t i = 0; left > 0; --left, ++i) ++counts[i % counts.size()];
  return counts;
}

Counts counts_of(std::int64_t examples, const SplitOptions& options) {
  check_arg(options.fractions.empty() != options.counts.empty(), kSplitOp,
            "give the parts either as fractions or as counts, not both");
  Counts counts =
      options.counts.empty() ? counts_of_fractions(examples, options.fractions) : options.counts;
  std::int64_t left = examples;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    check_arg(counts[i] >= 1, kSplitOp, "part ", i, " of ", examples, " examples would have ",
              counts[i], ". Give each part at least one");
    check_arg(counts[i] <= left, kSplitOp, "the counts add up to more than the ", examples,
              " examples. They must add up to exactly that");
    left -= counts[i];
  }
  check_arg(left == 0, kSplitOp, "the counts add up to ", examples - left, ", and there are ",
            examples, " examples. They must add up to exactly that");
  return counts;
}

// Assigns a part to each of `examples` places. All parts grow evenly, so that in any run of places,
// such as those of a class, each part has its share.
std::vector<std::size_t> even_parts(std::int64_t examples, const Counts& counts) {
  Counts given(counts.size());
  std::vector<std::size_t> parts;
  for (std::int64_t place = 1; place <= examples; ++place) {
    std::optional<std::size_t> next;
    std::int64_t most = 0;  // how far a part lags behind its share, times `examples`
    for (std::size_t p = 0; p < counts.size(); ++p) {
      const std::int64_t lag = counts[p] * place - given[p] * examples;
      if (given[p] == counts[p] || (next.has_value() && lag <= most)) continue;
      most = lag;
      next = p;
    }
    ++given[*next];
    parts.push_back(*next);
  }
  return parts;
}

std::vector<std::size_t> parts_in_turn(const Counts& counts) {
  std::vector<std::size_t> parts;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    parts.insert(parts.end(), static_cast<std::size_t>(counts[p]), p);
  }
  return parts;
}

}  // namespace

std::vector<Counts> split_indices(std::int64_t examples, const SplitOptions& options,
                                  std::span<const std::int64_t> labels) {
  const Counts counts = counts_of(examples, options);
  Counts order = count_to(examples);
  shuffle(order, stream_of(options.seed, 0, kOrderStream));
  if (options.stratify) {
    check_arg(examples <= kMostStratified, kSplitOp, examples,
              " examples are too many for a stratified split. Split at most ", kMostStratified);
    check_arg(std::ssize(labels) == examples, kSplitOp, "a stratified split of ", examples,
              " examples needs a label for each; there are ", labels.size());
    std::ranges::stable_sort(
        order, {}, [&](std::int64_t example) { return labels[static_cast<std::size_t>(example)]; });
  }
  const std::vector<std::size_t> part_of =
      options.stratify ? even_parts(examples, counts) : parts_in_turn(counts);
  std::vector<Counts> parts(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) parts[part_of[i]].push_back(order[i]);
  for (Counts& part : parts) std::ranges::sort(part);
  return parts;
}

std::vector<std::unique_ptr<Subset>> random_split(const Dataset& dataset,
                                                  const SplitOptions& options) {
  const std::vector<std::int64_t> labels =
      options.stratify ? labels_of(dataset) : std::vector<std::int64_t>();
  std::vector<std::unique_ptr<Subset>> sets;
  for (Counts& part : split_indices(dataset.size(), options, labels)) {
    sets.push_back(std::make_unique<Subset>(dataset, std::move(part)));
  }
  return sets;
}

std::vector<std::vector<Tensor>> split_rows(const std::vector<Tensor>& tensors,
                                            const SplitOptions& options) {
  const std::int64_t rows = common_rows(kSplitOp, tensors);
  std::vector<std::int64_t> labels;
  if (options.stratify) {
    const Tensor& last = tensors.back();
    check_arg(
        last.rank() == 1 && (last.dtype() == DType::kI64 || last.dtype() == DType::kI32), kSplitOp,
        "a stratified split uses the last tensor as class numbers, i64 or i32 [n]; it is ", last);
    labels = last.to_vector<std::int64_t>();
  }
  std::vector<std::vector<Tensor>> parts;
  for (const Counts& part : split_indices(rows, options, labels)) {
    std::vector<Tensor>& of_part = parts.emplace_back();
    for (const Tensor& tensor : tensors) of_part.push_back(take_rows(tensor, part));
  }
  return parts;
}

}  // namespace mezzo::data
