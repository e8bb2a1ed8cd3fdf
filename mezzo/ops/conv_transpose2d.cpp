#include "mezzo/ops/conv_transpose2d.h"

#include <algorithm>

#include "mezzo/ops/all.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

Size2d kernel_of(const Shape& weight) { return {weight[2], weight[3]}; }

// The size of the result, for checked attributes; not positive if the result is empty.
Size2d enlarged(Size2d in, Size2d kernel, const ConvTranspose2dAttrs& attrs) {
  const Window2d window = attrs.conv.window(kernel);
  const Size2d span = window.span();
  const Sides& padding = window.padding;
  return {
      (in.h - 1) * window.stride.h + span.h - padding.top - padding.bottom + attrs.output_padding.h,
      (in.w - 1) * window.stride.w + span.w - padding.left - padding.right +
          attrs.output_padding.w};
}

void check_operands(const Infer& infer) {
  const Shape& x = infer.shape(0);
  const Shape& weight = infer.shape(1);
  const auto& attrs = infer.attrs<ConvTranspose2dAttrs>();
  const Size2d stride = attrs.conv.stride;
  const Size2d more = attrs.output_padding;
  infer.check(attrs.conv.groups >= 1, "groups must be at least 1, it is ", attrs.conv.groups,
              ". Use 1 for a plain convolution");
  infer.check(weight[0] == x[1], "weight expects ", weight[0], " input channels, x has ", x[1],
              ": x ", x, ", weight ", weight, ". Make the layer with as many as x has");
  infer.check(x[1] % attrs.conv.groups == 0, "the ", x[1],
              " input channels cannot be divided into ", attrs.conv.groups, " groups: x ", x,
              ", weight ", weight, ". Choose groups that divide both channels");
  infer.check(x[2] >= 1 && x[3] >= 1, "x has images without pixels: ", x, ". Leave them out");
  infer.check(x[2] <= kMostPixels && x[3] <= kMostPixels, "x has images of more than ", kMostPixels,
              " pixels on a side: ", x, ". Cut them with slice()");
  attrs.conv.window(kernel_of(weight)).check_numbers(infer.op());
  infer.check(more.h >= 0 && more.w >= 0 && more.h < stride.h && more.w < stride.w,
              "output_padding must be smaller than the stride ", stride, ", it is ", more,
              ". Use less, or 0");
}

void infer_conv_transpose2d(Infer& infer) {
  infer.check_rank(0, 4, "x");
  infer.check_rank(1, 4, "weight");
  infer.check_same_dtype(0, 1);
  check_operands(infer);
  const Shape& x = infer.shape(0);
  const Shape& weight = infer.shape(1);
  const auto& attrs = infer.attrs<ConvTranspose2dAttrs>();
  const std::int64_t channels = weight[1] * attrs.conv.groups;
  if (infer.has(2)) {
    infer.check(infer.shape(2) == Shape{channels}, "bias must have the shape ", Shape{channels},
                ", one value per output channel, it is ", infer.shape(2),
                ". Use reshape(), or leave it out");
  }
  const Size2d out = enlarged({x[2], x[3]}, kernel_of(weight), attrs);
  infer.check(out.h >= 1 && out.w >= 1, "the padding ", attrs.conv.padding,
              " leaves nothing of the result, whose size is ", out, ". Use less padding");
  infer.output({x[0], channels, out.h, out.w}, infer.dtype(0), Format::kChannelsLast);
}

// The operation is linear in x and in weight, like the convolution whose gradient it is: there its
// result is the image, and x is the result.
void conv_transpose2d_backward(Backward& ctx) {
  const auto& attrs = ctx.attrs<ConvTranspose2dAttrs>();
  const Tensor& grad = ctx.grad();
  if (ctx.needs(0)) {
    const Tensor weight = ctx.input(1);
    const Tensor none;
    ctx.set(0, call_one(ops::conv2d, {&grad, &weight, &none}, attrs.conv));
  }
  if (ctx.needs(1)) {
    const Tensor x = ctx.input(0);
    ctx.set(1, call_one(ops::conv2d_grad_weight, {&x, &grad},
                        Conv2dGradAttrs{attrs.conv, kernel_of(ctx.input_shape(1)),
                                        ctx.has_wide_grad(1), ctx.input_format(1)}));
  }
  if (ctx.needs(2)) ctx.set(2, sum(grad, {0, 2, 3}, false, ctx.grad_dtype(2)));
}

struct TransposeCase {
  Shape x;
  Shape weight;
  Conv2dAttrs conv{};
  Size2d output_padding = 0;
};

std::vector<Sample> conv_transpose2d_samples() {
  const TransposeCase cases[] = {
      {{2, 4, 5, 6}, {4, 3, 3, 3}},
      {{2, 8, 4, 4}, {8, 3, 2, 2}, {.stride = 2}},
      {{2, 8, 4, 5}, {8, 4, 3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}}, 1},
      {{1, 3, 5, 4}, {3, 17, 2, 3}, {.stride = {1, 3}, .padding = {0, 1, 1, 2}}, {0, 2}},
      {{2, 32, 6, 6}, {32, 16, 1, 1}},
      {{2, 5, 3, 3}, {5, 17, 1, 1}, {.stride = 2}, 1},
      {{1, 4, 5, 5}, {4, 6, 3, 3}, {.padding = {2, 2, 2, 2}, .dilation = 2}},
      {{2, 6, 4, 5}, {6, 4, 3, 3}, {.padding = {1, 1, 1, 1}, .groups = 2}},
      {{2, 6, 4, 4}, {6, 1, 3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}, .groups = 6}},
      {{3, 2, 6, 4}, {2, 1, 4, 4}, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{1, 2, 2, 3}, {2, 3, 1, 1}, {.stride = 3}},
      {{0, 3, 5, 5}, {3, 4, 3, 3}},
  };
  std::vector<Sample> samples;
  bool with_bias = false;
  for (const TransposeCase& c : cases) {
    with_bias = !with_bias;
    const std::int64_t terms = c.weight[0] / c.conv.groups * c.weight[2] * c.weight[3] + 1;
    const SampleInput bias{.shape = {c.weight[1] * c.conv.groups}, .absent = !with_bias};
    samples.push_back(
        {{{c.x}, {c.weight}, bias}, ConvTranspose2dAttrs{c.conv, c.output_padding}, terms});
  }
  return samples;
}

std::vector<ErrorSample> conv_transpose2d_errors() {
  const SampleInput none{.shape = {}, .absent = true};
  const ConvTranspose2dAttrs plain{};
  return {
      {{{{2, 4, 5, 5}}, {{3, 8, 3, 3}}, none},
       plain,
       "[conv_transpose2d] weight expects 3 input channels, x has 4: x [2, 4, 5, 5], weight "
       "[3, 8, 3, 3]"},
      {{{{4, 5, 5}}, {{4, 8, 3, 3}}, none}, plain, "x must have 4 dimensions"},
      {{{{2, 4, 5, 5}}, {{4, 8}}, none}, plain, "weight must have 4 dimensions"},
      {{{{2, 4, 0, 5}}, {{4, 8, 3, 3}}, none}, plain, "images without pixels: [2, 4, 0, 5]"},
      {{{{2, 3, 5, 5}}, {{3, 2, 3, 3}}, none},
       ConvTranspose2dAttrs{{.groups = 2}},
       "the 3 input channels cannot be divided into 2 groups"},
      {{{{2, 4, 5, 5}}, {{4, 3, 3, 3}}, {{4}}},
       ConvTranspose2dAttrs{{.groups = 2}},
       "bias must have the shape [6], one value per output channel, it is [4]"},
      {{{{2, 4, 5, 5}}, {{4, 8, 3, 3}}, none},
       ConvTranspose2dAttrs{{.groups = 0}},
       "groups must be at least 1, it is 0"},
      {{{{2, 4, 5, 5}}, {{4, 8, 3, 3}}, none},
       ConvTranspose2dAttrs{{.stride = 0}},
       "the stride must be at least 1, it is [0, 0]"},
      {{{{2, 4, 5, 5}}, {{4, 8, 3, 3}}, none},
       ConvTranspose2dAttrs{{.stride = 2}, {1, 2}},
       "output_padding must be smaller than the stride [2, 2], it is [1, 2]"},
      {{{{2, 4, 1, 5}}, {{4, 8, 3, 3}}, none},
       ConvTranspose2dAttrs{{.padding = {2, 1, 0, 0}}},
       "the padding [2, 1, 0, 0] leaves nothing of the result, whose size is [0, 7]"},
  };
}

}  // namespace

namespace ops {

extern const OpDef conv_transpose2d{
    .name = "conv_transpose2d",
    .doc =
        "the transposed convolution of x [n, c, h, w] with weight [c, o / groups, kh, kw], plus "
        "bias [o]",
    // The bias is added to the f32 sums, like that of conv2d: rounding it to 16 bits would only
    // lose bits.
    .precision = {.lower = PrecisionClass::kLower,
                  .cast_mask = 0b011,
                  .reason = "the products of conv2d: those of 16-bit values are exact in f32, "
                            "where they are added up"},
    .saves = {.inputs = 0b011},
    .promote = 0b011,
    .infer = infer_conv_transpose2d,
    .flops =
        [](Inputs inputs, std::span<const Tensor>, const Attrs&) {
          // Every element of x is multiplied by all filters of its channel.
          const Tensor& weight = *inputs[1];
          const std::int64_t filters = weight.numel() / std::max<std::int64_t>(weight.size(0), 1);
          return 2 * static_cast<double>(inputs[0]->numel()) * static_cast<double>(filters);
        },
    .backward = conv_transpose2d_backward,
    .samples = conv_transpose2d_samples,
    .errors = conv_transpose2d_errors,
    .exact = true,
};

}  // namespace ops

namespace {

// The rows and columns by which a result with Padding::kSame would be smaller than stride * in: the
// pixels that no window covers if the kernel is smaller than the stride.
Size2d beyond_windows(Size2d span, Size2d stride) {
  return {std::max<std::int64_t>(stride.h - span.h, 0),
          std::max<std::int64_t>(stride.w - span.w, 0)};
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  ConvTranspose2dAttrs attrs{
      {options.stride, {}, options.dilation, options.groups, are_sums_exact()},
      options.output_padding};
  if (x.rank() == 4 && weight.rank() == 4) {  // otherwise the call below reports the error
    const Window2d window = attrs.conv.window(kernel_of(weight.shape()));
    window.check_numbers(ops::conv_transpose2d.name);
    const Size2d stride = options.stride;
    attrs.conv.padding = options.padding.resolve({x.size(2) * stride.h, x.size(3) * stride.w},
                                                 window.span(), stride);
    if (options.padding.is_same()) {
      const Size2d more = beyond_windows(window.span(), stride);
      const Size2d asked = options.output_padding;
      check_arg(asked == Size2d(0) || (asked.h + more.h < stride.h && asked.w + more.w < stride.w),
                "conv_transpose2d", "the kernel covers ", window.span(),
                " pixels, to which Padding::kSame adds ", more, " to reach the stride ", stride,
                ": there is no room for an output_padding of ", asked, ". Use 0");
      attrs.output_padding = {asked.h + more.h, asked.w + more.w};
    }
  }
  return call_one(ops::conv_transpose2d, {&x, &weight, &bias}, attrs);
}

}  // namespace mezzo
