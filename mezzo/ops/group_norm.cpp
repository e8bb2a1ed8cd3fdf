#include "mezzo/ops/group_norm.h"

#include <utility>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/fusion/norm_statistics.h"
#include "mezzo/ops/group_norm_attrs.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

using GroupIn = GroupNormInput;
using GroupGradIn = GroupNormGradInput;

DType group_statistics_dtype(DType x) { return x == DType::kF64 ? DType::kF64 : DType::kF32; }

Format image_format(const Shape& x) {
  return x.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
}

void check_channel_numbers(const Infer& infer, std::size_t i, const char* name) {
  if (!infer.has(i)) return;
  const DType wanted = group_statistics_dtype(infer.dtype(GroupIn::kX));
  const Shape shape{infer.shape(GroupIn::kX)[1]};
  infer.check(infer.shape(i) == shape && infer.dtype(i) == wanted, name, " must be ", wanted, shape,
              " for x of shape ", infer.shape(GroupIn::kX), ", it is ", infer.input(i),
              ". Use astype() and reshape(), or leave it out");
}

void infer_group_norm(Infer& infer) {
  const auto& attrs = infer.attrs<GroupNormAttrs>();
  infer.check_floating(GroupIn::kX, "x");
  const Shape& shape = infer.shape(GroupIn::kX);
  infer.check(shape.rank() == 2 || shape.rank() == 4, "x must be [n, c] or [n, c, h, w], it is ",
              shape, ". Use reshape()");
  infer.check(attrs.groups >= 1 && shape[1] % attrs.groups == 0, "the ", shape[1],
              " channels of shape ", shape, " cannot be divided into ", attrs.groups,
              " groups. Choose a number that divides them");
  infer.check(GroupSizes(shape, attrs.groups).group_numbers() > 0,
              "there is nothing to normalise in shape ", shape, ". Leave it out");
  infer.check(attrs.eps >= 0, "eps must not be negative: ", attrs.eps, ". Use 1e-5");
  check_channel_numbers(infer, GroupIn::kWeight, "weight");
  check_channel_numbers(infer, GroupIn::kBias, "bias");
  const DType statistics = group_statistics_dtype(infer.dtype(GroupIn::kX));
  infer.output(shape, infer.dtype(GroupIn::kX), image_format(shape));
  infer.output({shape[0], attrs.groups}, statistics);  // mean
  infer.output({shape[0], attrs.groups}, statistics);  // 1 / sqrt(var + eps)
}

void infer_group_norm_grad(Infer& infer) {
  const Shape& shape = infer.shape(GroupGradIn::kX);
  infer.check_same_dtype(GroupGradIn::kX, GroupGradIn::kGrad);
  infer.check(infer.shape(GroupGradIn::kGrad) == shape, "the gradient has shape ",
              infer.shape(GroupGradIn::kGrad), ", x has ", shape, ". Give it the shape of x");
  infer.output(shape, infer.dtype(GroupGradIn::kX), image_format(shape));
  infer.output({shape[1]}, infer.dtype(GroupGradIn::kMean));
  infer.output({shape[1]}, infer.dtype(GroupGradIn::kMean));
}

struct GroupNormGrads {
  Tensor x;
  Tensor weight;
  Tensor bias;
};

GroupNormGrads fused_group_grads(Backward& ctx);

// Gradients from differentiable operations, for gradients of gradients. Statistics are recomputed
// from x: the saved ones are constants to the tape.
GroupNormGrads group_grads_by_ops(Backward& ctx) {
  const auto& attrs = ctx.attrs<GroupNormAttrs>();
  const Tensor saved = ctx.input(GroupIn::kX);
  const Shape& shape = saved.shape();
  const GroupSizes sizes(shape, attrs.groups);
  const DType dtype = group_statistics_dtype(saved.dtype());
  const Shape rows{sizes.samples, sizes.groups, sizes.group_numbers()};
  const Shape of_row{2};
  const Shape of_channel = shape.rank() == 4 ? Shape{0, 2, 3} : Shape{0};
  Shape channels = Shape::filled(shape.rank(), 1);
  channels[1] = shape[1];

  const Tensor x = reshape(cast(saved, dtype), rows);
  const Tensor grad = cast(ctx.grad(), dtype);
  const Tensor centered = x - mean(x, of_row, true);
  const Tensor std = deviation_by_ops(mean(centered * centered, of_row, true), attrs.eps);
  const Tensor normal = centered / std;
  const bool is_scaled = ctx.has_input(GroupIn::kWeight);
  const Tensor scaled =
      reshape(is_scaled ? grad * reshape(ctx.input(GroupIn::kWeight), channels) : grad, rows);
  const Tensor rest =
      scaled - mean(scaled, of_row, true) - normal * mean(scaled * normal, of_row, true);
  return {cast(reshape(rest / std, shape), saved.dtype()),
          sum(grad * reshape(normal, shape), of_channel), sum(grad, of_channel)};
}

void group_norm_backward(Backward& ctx) {
  const GroupNormGrads grads =
      ctx.create_graph() ? group_grads_by_ops(ctx) : fused_group_grads(ctx);
  if (ctx.needs(GroupIn::kX)) ctx.set(GroupIn::kX, grads.x);
  if (ctx.needs(GroupIn::kWeight)) ctx.set(GroupIn::kWeight, grads.weight);
  if (ctx.needs(GroupIn::kBias)) ctx.set(GroupIn::kBias, grads.bias);
}

Sample group_norm_sample(const Shape& x, std::int64_t groups, bool affine = true) {
  const Shape channels{x[1]};
  return {{{x, -1, 2}, {channels, 0.5, 1.5, false, !affine}, {channels, -0.5, 0.5, false, !affine}},
          GroupNormAttrs{groups, 1e-3},
          GroupSizes(x, groups).group_numbers(),
          8};
}

Sample group_norm_grad_sample(const Shape& x, std::int64_t groups, bool affine = true) {
  const GroupSizes sizes(x, groups);
  const Shape rows{x[0], groups};
  return {{{x}, {x}, {{x[1]}, 0.5, 1.5, false, !affine}, {rows}, {rows, 0.5, 2}},
          GroupNormAttrs{groups, 1e-3},
          std::max(sizes.group_numbers(), sizes.samples * sizes.pixels),
          8};
}

}  // namespace

namespace ops {

extern const OpDef group_norm{
    .name = "group_norm",
    .doc =
        "(x - mean) / sqrt(var + eps) * weight + bias over groups of the channels of [n, c] or "
        "[n, c, h, w]",
    .precision = {.lower = PrecisionClass::kKeep,
                  .cast_mask = 1U << GroupIn::kX,
                  .reason = "keeps the dtype of x; statistics are f32 inside, because sums of "
                            "squares leave f16's range and lose their terms in bf16"},
    .saves = {.inputs = 0b11, .outputs = 0b110},
    .infer = infer_group_norm,
    .backward = group_norm_backward,
    .samples = []() -> std::vector<Sample> {
      return {group_norm_sample({3, 4, 3, 5}, 2),
              group_norm_sample({2, 34, 2, 3}, 2),
              group_norm_sample({5, 6}, 3),
              group_norm_sample({2, 64, 4, 4}, 8),
              group_norm_sample({3, 5, 4, 4}, 5),
              group_norm_sample({2, 7, 3, 3}, 1),
              group_norm_sample({1, 12, 17, 3}, 4),
              group_norm_sample({3, 1030, 1, 2}, 10),
              group_norm_sample({2, 6, 3, 3}, 3, false),
              group_norm_sample({0, 8, 2, 2}, 4)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3, 4}}}, GroupNormAttrs{}, "x must be [n, c] or [n, c, h, w], it is"},
              {{{{2, 4, 3, 3}}}, GroupNormAttrs{3}, "the 4 channels of shape [2, 4, 3, 3] cannot"},
              {{{{2, 4}}}, GroupNormAttrs{0}, "cannot be divided into 0 groups"},
              {{{{2, 4, 0, 3}}}, GroupNormAttrs{2}, "there is nothing to normalise in shape"},
              {{{{2, 4}}, {{2}}}, GroupNormAttrs{2}, "weight must be f32[4]"}};
    },
    .ulps = 8,
};

extern const OpDef group_norm_grad{
    .name = "group_norm_grad",
    .doc = "the gradients of group_norm",
    .precision = {.cast_mask = 1U << GroupGradIn::kGrad | 1U << GroupGradIn::kX,
                  .reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer = infer_group_norm_grad,
    .samples = []() -> std::vector<Sample> {
      return {group_norm_grad_sample({3, 4, 3, 5}, 2),
              group_norm_grad_sample({2, 34, 2, 3}, 2),
              group_norm_grad_sample({300, 6}, 3),
              group_norm_grad_sample({2, 64, 4, 4}, 8),
              group_norm_grad_sample({1, 12, 17, 3}, 4),
              group_norm_grad_sample({3, 1030, 1, 2}, 10),
              group_norm_grad_sample({2, 6, 3, 3}, 6, false)};
    },
    .ulps = 8,
};

}  // namespace ops

namespace {

// The gradient with respect to x overwrites that of the result, whose lines are in the caches
// already.
GroupNormGrads fused_group_grads(Backward& ctx) {
  const Tensor weight = ctx.has_input(GroupIn::kWeight) ? ctx.input(GroupIn::kWeight) : Tensor();
  const Tensor mean = ctx.output(1);
  const Tensor rstd = ctx.output(2);
  const Tensor x = ctx.input(GroupIn::kX);
  const Tensor grad = ctx.take_grad();
  Outputs outputs = call_over(ops::group_norm_grad, {&grad, &x, &weight, &mean, &rstd},
                              ctx.attrs<GroupNormAttrs>(), {&grad, nullptr, nullptr});
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2])};
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  // These are a few values per channel: f32 copies cost nothing, and kernels need only one case.
  const Tensor scale = widen(weight);
  const Tensor shift = widen(bias);
  return call_one(ops::group_norm, {&x, &scale, &shift}, GroupNormAttrs{groups, eps});
}

}  // namespace mezzo
