// Random splits of data sets and of tensors into parts that share nothing and leave nothing out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/subset.h"

namespace mezzo::data {

struct SplitOptions {
  // The parts, by either of these. Fractions add up to 1; what rounding down leaves goes to the
  // first parts, one example each, as in PyTorch.
  std::vector<double> fractions{};
  std::vector<std::int64_t> counts{};  // add up to the number of examples
  std::uint64_t seed = 0;
  bool stratify = false;  // each part has its share of each class, as nearly as whole examples can
};

// The examples of each part, in the order of the set: a function of the arguments alone. `labels`,
// [examples], are read if the split is stratified. Throws ArgumentError unless the fractions or the
// counts are as above and no part is empty; and if it is stratified, unless there is a label for
// each example.
std::vector<std::vector<std::int64_t>> split_indices(std::int64_t examples,
                                                     const SplitOptions& options,
                                                     std::span<const std::int64_t> labels = {});

// The parts of a data set, which must outlive them. A stratified split reads the labels. Two sets
// of the same images, with and without augmentation, are split alike by the same options.
std::vector<std::unique_ptr<Subset>> random_split(const Dataset& dataset,
                                                  const SplitOptions& options);

// The same of tensors whose rows belong together: parts[p][t] is part p of tensor t, a copy. A
// stratified split goes by the last tensor, class numbers [n]. Throws ArgumentError also unless all
// tensors have the same number of rows and lie in the host's memory in one block each.
std::vector<std::vector<Tensor>> split_rows(const std::vector<Tensor>& tensors,
                                            const SplitOptions& options);

}  // namespace mezzo::data
