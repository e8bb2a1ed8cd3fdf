#include "mezzo/ops/pool.h"

#include <algorithm>

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/pool_attrs.h"

namespace mezzo {
namespace {

Shape pooled_shape(const Shape& x, const Pool2dAttrs& attrs, const char* op) {
  const Sides& padding = attrs.padding;
  check_arg(x[2] >= 1 && x[3] >= 1, op, "x has no pixels: ", x,
            ". Use larger images, or pool less before this");
  const Size2d out = attrs.window().output_size({x[2], x[3]}, op);
  check_arg(std::max(padding.top, padding.bottom) < attrs.kernel.h &&
                std::max(padding.left, padding.right) < attrs.kernel.w,
            op, "the padding ", padding, " must be smaller than the kernel ", attrs.kernel,
            ", or some windows would cover only padding. Use less padding, or a larger kernel");
  return {x[0], x[1], out.h, out.w};
}

void infer_pool(Infer& infer) {
  infer.check_rank(0, 4, "x");
  infer.check_floating(0, "x");
  infer.output(pooled_shape(infer.shape(0), infer.attrs<Pool2dAttrs>(), infer.op()), infer.dtype(0),
               Format::kChannelsLast);
}

// The dtype of positions in a window: as small as possible, since they are kept for the backward
// pass.
DType position_dtype(const Pool2dAttrs& attrs) {
  return attrs.kernel.h * attrs.kernel.w <= 256 ? DType::kU8 : DType::kI32;
}

void infer_max_pool(Infer& infer) {
  infer_pool(infer);
  infer.output(infer.outputs()[0].shape, position_dtype(infer.attrs<Pool2dAttrs>()),
               Format::kChannelsLast);
}

void check_positions(const Infer& infer, std::size_t i, const Shape& wanted) {
  infer.check(infer.shape(i) == wanted, "positions have shape ", infer.shape(i), ", the windows ",
              wanted, ". Give those of max_pool2d()");
  infer.check(!is_floating(infer.dtype(i)), "positions must be integers, they are ", infer.dtype(i),
              ". Give those of max_pool2d()");
}

// For both gradients: the incoming gradient has the shape of the windows, the result that of x.
void infer_pool_grad(Infer& infer) {
  const auto& attrs = infer.attrs<Pool2dAttrs>();
  infer.check_rank(0, 4, "grad");
  infer.check_floating(0, "grad");
  const Shape& grad = infer.shape(0);
  const Shape x{grad[0], grad[1], attrs.image.h, attrs.image.w};
  const Shape out = pooled_shape(x, attrs, infer.op());
  infer.check(grad == out, "the gradient has shape ", grad, ", the result of pooling ", out,
              ". Give it the shape of the result");
  if (infer.has(1)) check_positions(infer, 1, out);
  infer.output(x, infer.dtype(0), Format::kChannelsLast);
}

void infer_pick(Infer& infer) {
  infer_pool(infer);
  check_positions(infer, 1, infer.outputs()[0].shape);
}

Pool2dAttrs with_image(Pool2dAttrs attrs, const Shape& x) {
  attrs.image = {x[2], x[3]};
  return attrs;
}

struct PoolCase {
  Shape x;
  Pool2dAttrs attrs{};
};

std::vector<PoolCase> pool_cases() {
  return {{{2, 3, 6, 8}},
          {{1, 17, 7, 7}, {.kernel = 3, .stride = 2, .padding = {1, 1, 1, 1}}},
          {{2, 33, 5, 6}, {.kernel = {2, 3}, .stride = 1, .padding = {0, 1, 1, 1}}},
          {{2, 4, 5, 5}, {.kernel = 2, .stride = 3, .padding = {0, 1, 0, 1}}},
          {{1, 64, 4, 3}, {.kernel = {4, 3}, .stride = 1}},
          {{1, 3, 17, 17}, {.kernel = 17, .stride = 1, .padding = {1, 0, 0, 1}}},
          {{0, 3, 4, 4}}};
}

template <bool kMeans, bool kGradient, bool kPositions>
std::vector<Sample> samples() {
  std::vector<Sample> result;
  bool include_pad = false;
  for (PoolCase& c : pool_cases()) {
    c.attrs.count_include_pad = !kMeans || (include_pad = !include_pad);
    const Shape out = pooled_shape(c.x, c.attrs, "pool");
    const std::int64_t window = c.attrs.kernel.h * c.attrs.kernel.w;
    Sample sample{{{kGradient ? out : c.x}}, kGradient ? with_image(c.attrs, c.x) : c.attrs};
    if (kMeans || kGradient) sample.terms = window;
    if (kPositions) {
      sample.inputs.push_back(
          {.shape = out, .low = 0, .high = static_cast<double>(window), .integer = true});
    }
    result.push_back(sample);
  }
  return result;
}

std::vector<ErrorSample> pool_errors() {
  return {{{{{3, 6, 8}}}, Pool2dAttrs{}, "x must have 4 dimensions"},
          {{{{2, 3, 6, 8}}},
           Pool2dAttrs{.kernel = 7},
           "the kernel [7, 7] is larger than the padded image [6, 8]"},
          {{{{2, 3, 6, 8}}}, Pool2dAttrs{.stride = 0}, "the stride must be at least 1"},
          {{{{2, 3, 6, 8}}},
           Pool2dAttrs{.padding = {2, 0, 0, 0}},
           "the padding [2, 0, 0, 0] must be smaller than the kernel [2, 2]"}};
}

constexpr const char* kBackwardReason =
    "part of a backward pass, which runs in its forward's dtype; sums are kept in f32";

}  // namespace

namespace ops {

extern const OpDef max_pool2d_grad;
extern const OpDef max_pool2d_pick;
extern const OpDef avg_pool2d_grad;

extern const OpDef max_pool2d{
    .name = "max_pool2d",
    .doc = "the largest pixel of each window of x [n, c, h, w], and its position in the window",
    .precision = {.reason = "chooses between values, rounds nothing"},
    .saves = {.outputs = 0b10},
    .infer = infer_max_pool,
    .backward =
        [](Backward& ctx) {
          const Tensor positions = ctx.output(1);
          ctx.set(0, call_one(ops::max_pool2d_grad, {&ctx.grad(), &positions},
                              with_image(ctx.attrs<Pool2dAttrs>(), ctx.input_shape(0))));
        },
    .samples = samples<false, false, false>,
    .errors = pool_errors,
    .exact = true,
};

extern const OpDef max_pool2d_grad{
    .name = "max_pool2d_grad",
    .doc =
        "the gradient of max_pool2d with respect to x: every pixel's sum over the windows that "
        "chose it",
    .precision = {.reason = kBackwardReason},
    .saves = {.inputs = 0b10},
    .infer = infer_pool_grad,
    .backward =
        [](Backward& ctx) {
          const Tensor positions = ctx.input(1);
          ctx.set(0, call_one(ops::max_pool2d_pick, {&ctx.grad(), &positions},
                              ctx.attrs<Pool2dAttrs>()));
        },
    .grad_inputs = 0b01,
    .samples = samples<false, true, true>,
    .exact = true,
};

extern const OpDef max_pool2d_pick{
    .name = "max_pool2d_pick",
    .doc = "the pixel of each window of x that has the given position; 0 in the padding",
    .precision = {.reason = "moves data without arithmetic"},
    .saves = {.inputs = 0b10},
    .infer = infer_pick,
    .backward =
        [](Backward& ctx) {
          const Tensor positions = ctx.input(1);
          ctx.set(0, call_one(ops::max_pool2d_grad, {&ctx.grad(), &positions},
                              with_image(ctx.attrs<Pool2dAttrs>(), ctx.input_shape(0))));
        },
    .grad_inputs = 0b01,
    .samples = samples<false, false, true>,
    .exact = true,
};

extern const OpDef avg_pool2d{
    .name = "avg_pool2d",
    .doc = "the mean of each window of x [n, c, h, w]",
    .precision = {.reason = "sums are kept in f32, and the mean is rounded once"},
    .infer = infer_pool,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::avg_pool2d_grad, {&ctx.grad()},
                              with_image(ctx.attrs<Pool2dAttrs>(), ctx.input_shape(0))));
        },
    .samples = samples<true, false, false>,
    .errors = pool_errors,
    .ulps = 2,
};

extern const OpDef avg_pool2d_grad{
    .name = "avg_pool2d_grad",
    .doc = "the gradient of avg_pool2d with respect to x: every window's share, summed per pixel",
    .precision = {.reason = kBackwardReason},
    .infer = infer_pool_grad,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::avg_pool2d, {&ctx.grad()}, ctx.attrs<Pool2dAttrs>()));
        },
    .samples = samples<true, true, false>,
    .ulps = 2,
};

}  // namespace ops

namespace {

Pool2dAttrs make_attrs(const char* op, const Tensor& x, const Pool2dOptions& options) {
  Pool2dAttrs attrs{options.kernel, options.stride.value_or(options.kernel), {}};
  attrs.count_include_pad = options.count_include_pad;
  if (x.rank() == 4) {  // otherwise the call reports the error
    attrs.window().check_numbers(op);
    attrs.padding =
        options.padding.resolve({x.shape()[2], x.shape()[3]}, attrs.kernel, attrs.stride);
  }
  return attrs;
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return call_one(ops::max_pool2d, {&x}, make_attrs(ops::max_pool2d.name, x, options));
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return call_one(ops::avg_pool2d, {&x}, make_attrs(ops::avg_pool2d.name, x, options));
}

Tensor global_avg_pool(const Tensor& x) {
  check_arg(x.rank() == 4, "global_avg_pool", "x must have 4 dimensions, the shape is ", x.shape(),
            ". Use reshape()");
  return avg_pool2d(x, {.kernel = {x.shape()[2], x.shape()[3]}, .stride = 1});
}

}  // namespace mezzo
