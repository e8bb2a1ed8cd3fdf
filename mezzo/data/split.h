// Random splits of data sets and of tensors into disjoint parts that together are the whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/subset.h"

namespace mezzo::data {

struct SplitOptions {
  // The parts, given by one of the next two. Fractions add up to 1; examples that rounding down
  // leaves over go to the first parts, one each, as in PyTorch.
  std::vector<double> fractions{};
  std::vector<std::int64_t> counts{};  // add up to the number of examples
  std::uint64_t seed = 0;
  bool stratify = false;  // every part gets its share of each class, as closely as possible
};

// The examples of each part, in the order of the set: a function of the arguments alone. A
// stratified split reads `labels`, [examples]. Throws ArgumentError unless the fractions or the
// counts are as above and no part is empty, and, if stratified, unless there is a label for each
// example.
std::vector<std::vector<std::int64_t>> split_indices(std::int64_t examples,
                                                     const SplitOptions& options,
                                                     std::span<const std::int64_t> labels = {});

// The parts of a data set, which must outlive them. A stratified split reads the labels. The same
// options split two sets of the same images, with and without augmentation, alike.
std::vector<std::unique_ptr<Subset>> random_split(const Dataset& dataset,
                                                  const SplitOptions& options);

// Splits tensors whose rows belong together: parts[p][t] is part p of tensor t, a copy. A
// stratified split uses the last tensor, class numbers [n]. Throws as split_indices() does, and
// ArgumentError unless all tensors have the same number of rows and are dense in host memory.
std::vector<std::vector<Tensor>> split_rows(const std::vector<Tensor>& tensors,
                                            const SplitOptions& options);

}  // namespace mezzo::data
