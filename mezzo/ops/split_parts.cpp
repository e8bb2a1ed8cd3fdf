#include "mezzo/ops/split_parts.h"

#include <algorithm>

#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/node.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo {
namespace {

// The shapes, dtypes and devices of the parts, for parts without a gradient.
struct SplitParts final : RefCounted {
  explicit SplitParts(std::span<const Tensor> parts, Device where) : device(where) {
    for (const Tensor& part : parts) specs.push_back({part.shape(), part.dtype()});
  }

  std::vector<TensorSpec> specs;
  Device device;
};

void split_backward(Backward& ctx) {
  const auto& parts = static_cast<const SplitParts&>(ctx.context());
  std::vector<Tensor> grads;
  for (std::size_t i = 0; i < parts.specs.size(); ++i) {
    const TensorSpec& spec = parts.specs[i];
    const Tensor& grad = ctx.grad(i);
    grads.push_back(
        grad.defined() ? grad : zeros(spec.shape, spec.dtype, Format::kContiguous, parts.device));
  }
  ctx.set(0, cat(grads, ctx.attrs<CatAttrs>().axis));
}

// The tape's view of a split: its calls are slices.
const OpDef kSplit{
    .name = "split",
    .doc = "parts along an axis",
    .precision = {.reason = "a view of the same elements"},
    .backward = split_backward,
    .grad_outputs = kAllInputs,
};

}  // namespace

std::vector<Tensor> split_parts(const Tensor& x, std::span<const std::int64_t> sizes,
                                std::size_t axis) {
  // A part that is all of x is x itself, and has its own place on the tape.
  const auto is_all = [&](std::int64_t size) { return size == x.shape()[axis]; };
  const bool is_joint = sizes.size() <= kMaxOutputs && std::ranges::none_of(sizes, is_all);
  const Tensor* const inputs[] = {&x};
  const bool is_recorded = is_joint && should_record(kSplit, inputs);
  const GradMode mode(!is_recorded && grad_enabled());
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(slice(x, static_cast<std::int64_t>(axis), start, start + size));
    start += size;
  }
  if (is_recorded) {
    const Ref<SplitParts> context = make_ref<SplitParts>(parts, x.device());
    record(kSplit, CatAttrs{static_cast<std::int64_t>(axis)}, Inputs(inputs), parts,
           Ref<RefCounted>(context.get()));
  }
  return parts;
}

}  // namespace mezzo
