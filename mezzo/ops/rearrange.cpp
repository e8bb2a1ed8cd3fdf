#include "mezzo/ops/rearrange.h"

#include <algorithm>
#include <limits>

#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/split_parts.h"

namespace mezzo {

Tensor stack(std::span<const Tensor> tensors, std::int64_t axis) {
  check_arg(!tensors.empty(), "stack", "there are no tensors to stack. Give at least one");
  const Shape& shape = tensors[0].shape();
  const std::size_t normal = normalize_axis(axis, shape.rank() + 1, "stack");
  Shape wider;
  for (std::size_t i = 0; i <= shape.rank(); ++i) {
    if (i == normal) wider.push_back(1);
    if (i < shape.rank()) wider.push_back(shape[i]);
  }
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_arg(tensors[i].shape() == shape, "stack", "tensor ", i, " has shape ", tensors[i].shape(),
              ", tensor 0 has ", shape, ". Give all the same shape");
    parts.push_back(reshape(tensors[i], wider));
  }
  return cat(parts, static_cast<std::int64_t>(normal));
}

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, std::int64_t axis) {
  const std::size_t normal = normalize_axis(axis, x.rank(), "split");
  std::int64_t start = 0;
  const std::int64_t all = x.shape()[normal];
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    check_arg(sizes[i] >= 0 && sizes[i] <= all - start, "split", "part ", i, " has size ", sizes[i],
              ", there are ", all - start, " elements left of ", all,
              ". Give sizes that add up to that of the axis");
    start += sizes[i];
  }
  check_arg(start == all, "split", "the sizes add up to ", start, ", the axis has ", all,
            ". Give sizes that add up to that of the axis");
  return split_parts(x, sizes, normal);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis) {
  check_arg(size > 0, "split", "the size of a part is ", size, ". Give a positive one");
  const std::int64_t all = x.shape()[normalize_axis(axis, x.rank(), "split")];
  std::vector<std::int64_t> sizes;
  // An empty axis is one empty part.
  for (std::int64_t left = all; left > 0 || sizes.empty(); left -= sizes.back()) {
    sizes.push_back(std::min(size, left));
    if (left == 0) break;
  }
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t axis) {
  check_arg(chunks > 0, "chunk", "the number of chunks is ", chunks, ". Give a positive one");
  const std::int64_t all = x.shape()[normalize_axis(axis, x.rank(), "chunk")];
  constexpr std::int64_t kMostEmpty = 1 << 20;
  check_arg(all > 0 || chunks <= kMostEmpty, "chunk", "an empty axis cannot have ", chunks,
            " chunks. Give at most ", kMostEmpty);
  if (all == 0) return split(x, std::vector<std::int64_t>(chunks, 0), axis);
  return split(x, all / chunks + (all % chunks > 0 ? 1 : 0), axis);
}

namespace {

// `count` elements more along an axis.
Tensor padding_like(const Tensor& x, std::size_t axis, std::int64_t count, double value) {
  Shape shape = x.shape();
  shape[axis] = count;
  return full(shape, value, x.dtype(), Format::kContiguous, x.device());
}

Tensor pad_axis(const Tensor& x, std::size_t axis, std::int64_t before, std::int64_t after,
                double value) {
  // The smallest integer has no negative.
  constexpr std::int64_t kLeast = -std::numeric_limits<std::int64_t>::max();
  const std::int64_t size = x.shape()[axis];
  const std::int64_t cut_before = std::max<std::int64_t>(0, -std::max(before, kLeast));
  const std::int64_t cut_after = std::max<std::int64_t>(0, -std::max(after, kLeast));
  check_arg(cut_before <= size && cut_after <= size - cut_before, "pad", "axis ", axis, " has ",
            size, " elements, of which ", cut_before, " and ", cut_after,
            " cannot be cut off. Give fewer");
  std::vector<Tensor> parts;
  if (before > 0) parts.push_back(padding_like(x, axis, before, value));
  parts.push_back(slice(x, static_cast<std::int64_t>(axis), cut_before, size - cut_after));
  if (after > 0) parts.push_back(padding_like(x, axis, after, value));
  return parts.size() == 1 ? parts[0] : cat(parts, static_cast<std::int64_t>(axis));
}

}  // namespace

Tensor pad(const Tensor& x, std::span<const std::int64_t> sides, double value) {
  check_arg(sides.size() % 2 == 0, "pad", "there are ", sides.size(),
            " numbers. Give two for each padded axis");
  check_arg(sides.size() / 2 <= x.rank(), "pad", "there are numbers for ", sides.size() / 2,
            " axes, x has ", x.rank(), ". Give two for each of its last axes");
  Tensor result = x;
  for (std::size_t i = 0; i < sides.size() / 2; ++i) {
    result = pad_axis(result, x.rank() - 1 - i, sides[2 * i], sides[2 * i + 1], value);
  }
  return result;
}

}  // namespace mezzo
