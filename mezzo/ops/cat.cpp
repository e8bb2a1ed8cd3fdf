#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo {
namespace {

void infer_cat(Infer& infer) {
  infer.check(infer.size() > 0, "there are no tensors to join. Give at least one");
  Shape shape = infer.shape(0);
  const auto axis = static_cast<std::size_t>(infer.attrs<CatAttrs>().axis);
  infer.check(axis < shape.rank(), "axis out of range: ", axis, " for a tensor of rank ",
              shape.rank(), ". Axes count from 0");
  bool channels_last = true;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < infer.size(); ++i) {
    infer.check_same_dtype(0, i);
    Shape same = infer.shape(i);
    infer.check(same.rank() == shape.rank(), "tensor ", i, " has rank ", same.rank(),
                ", tensor 0 has rank ", shape.rank(), ". Give all the same rank with reshape()");
    infer.check(!__builtin_add_overflow(total, same[axis], &total), "axis ", axis,
                " would be longer than can be counted. Join fewer");
    same[axis] = shape[axis];
    infer.check(same == shape, "tensor ", i, " has shape ", infer.shape(i), ", tensor 0 has ",
                shape, ". Only axis ", axis, " may differ");
    channels_last = channels_last && infer.input(i).format() == Format::kChannelsLast;
  }
  shape[axis] = total;
  infer.output(shape, infer.dtype(0), channels_last ? Format::kChannelsLast : Format::kContiguous);
}

void cat_backward(Backward& ctx) {
  const std::int64_t axis = ctx.attrs<CatAttrs>().axis;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < ctx.inputs(); ++i) {
    const std::int64_t size = ctx.input_shape(i)[static_cast<std::size_t>(axis)];
    if (ctx.needs(i)) ctx.set(i, slice(ctx.grad(), axis, start, start + size));
    start += size;
  }
}

}  // namespace

namespace ops {

extern const OpDef cat{
    .name = "cat",
    .doc = "tensors one after another along one axis",
    .precision = {.lower = PrecisionClass::kWidest,
                  .reason = "parts must agree; rounding the wider ones would lose what they were "
                            "kept wide for"},
    .promote = kAllInputs,
    .infer = infer_cat,
    .backward = cat_backward,
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3}}, {{2, 5}}}, CatAttrs{1}},
              {{{{2, 3, 4, 5}}, {{2, 1, 4, 5}}, {{2, 2, 4, 5}}}, CatAttrs{1}},
              {{{{4}}}, CatAttrs{0}},
              {{{{0, 3}}, {{2, 3}}}, CatAttrs{0}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{}, CatAttrs{0}, "there are no tensors to join"},
              {{{{2, 3}}, {{3, 3}}}, CatAttrs{1}, "tensor 1 has shape [3, 3], tensor 0 has [2, 3]"},
              {{{{2, 3}}, {{2}}}, CatAttrs{0}, "tensor 1 has rank 1, tensor 0 has rank 2"}};
    },
    .exact = true,
};

}  // namespace ops

Tensor cat(std::span<const Tensor> tensors, std::int64_t axis) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& tensor : tensors) inputs.push_back(&tensor);
  const std::size_t rank = tensors.empty() ? 1 : tensors[0].rank();
  const auto normal = static_cast<std::int64_t>(normalize_axis(axis, rank, "cat"));
  return std::move(call(ops::cat, inputs, CatAttrs{normal})[0]);
}

}  // namespace mezzo
