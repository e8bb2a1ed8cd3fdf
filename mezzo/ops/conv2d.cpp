#include "mezzo/ops/conv2d.h"

#include <algorithm>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/scaled_linear.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

const Tensor kAbsent;

Size2d size_of_image(const Shape& shape) { return {shape[2], shape[3]}; }

DType result_dtype(DType dtype, bool wide) { return wide && is_lower(dtype) ? DType::kF32 : dtype; }

Tensor grad_input(const Tensor& grad, const Tensor& weight, const Conv2dGradAttrs& attrs);
Tensor grad_weight(const Tensor& grad, const Tensor& x, const Conv2dGradAttrs& attrs);

// Checks that x and weight fit together and gives the size of the result's images.
Size2d check_conv(const Infer& infer, const Shape& x, const Shape& weight,
                  const Conv2dAttrs& attrs) {
  infer.check(attrs.groups >= 1, "groups must be at least 1, it is ", attrs.groups,
              ". Use 1 for a plain convolution");
  infer.check(weight[1] * attrs.groups == x[1], "weight expects ", weight[1] * attrs.groups,
              " input channels (groups ", attrs.groups, "), x has ", x[1], ": x ", x, ", weight ",
              weight, ". Change x, or the layer's in_channels");
  infer.check(weight[0] % attrs.groups == 0, "the ", weight[0],
              " output channels cannot be divided into ", attrs.groups, " groups: x ", x,
              ", weight ", weight, ". Choose groups that divide both channels");
  return attrs.window(size_of_image(weight)).output_size(size_of_image(x), infer.op());
}

void infer_conv2d(Infer& infer) {
  infer.check_rank(0, 4, "x");
  infer.check_rank(1, 4, "weight");
  infer.check_same_dtype(0, 1);
  const Shape& x = infer.shape(0);
  const Shape& weight = infer.shape(1);
  const Size2d out = check_conv(infer, x, weight, infer.attrs<Conv2dAttrs>());
  if (infer.has(2)) {
    infer.check(infer.shape(2) == Shape{weight[0]}, "bias must have the shape ", Shape{weight[0]},
                ", one value per output channel, it is ", infer.shape(2),
                ". Use reshape(), or leave it out");
  }
  infer.output({x[0], weight[0], out.h, out.w}, infer.dtype(0), Format::kChannelsLast);
}

void check_grad_shape(const Infer& infer, const Shape& wanted) {
  infer.check(infer.shape(0) == wanted, "the gradient has shape ", infer.shape(0),
              ", the result of the convolution ", wanted, ". Give it the shape of the result");
}

void infer_grad_input(Infer& infer) {
  infer.check_rank(0, 4, "grad");
  infer.check_rank(1, 4, "weight");
  infer.check_same_dtype(0, 1);
  const auto& attrs = infer.attrs<Conv2dGradAttrs>();
  const Shape& weight = infer.shape(1);
  const Shape x{infer.shape(0)[0], weight[1] * attrs.conv.groups, attrs.size.h, attrs.size.w};
  const Size2d out = check_conv(infer, x, weight, attrs.conv);
  check_grad_shape(infer, {x[0], weight[0], out.h, out.w});
  infer.output(x, result_dtype(infer.dtype(0), attrs.f32_result), Format::kChannelsLast);
}

void infer_grad_weight(Infer& infer) {
  infer.check_rank(0, 4, "grad");
  infer.check_rank(1, 4, "x");
  infer.check_same_dtype(0, 1);
  const auto& attrs = infer.attrs<Conv2dGradAttrs>();
  const Shape& x = infer.shape(1);
  infer.check(attrs.conv.groups >= 1 && x[1] % attrs.conv.groups == 0, "the ", x[1],
              " input channels cannot be divided into ", attrs.conv.groups,
              " groups. Choose groups that divide both channels");
  const Shape weight{infer.shape(0)[1], x[1] / attrs.conv.groups, attrs.size.h, attrs.size.w};
  const Size2d out = check_conv(infer, x, weight, attrs.conv);
  check_grad_shape(infer, {x[0], weight[0], out.h, out.w});
  infer.output(weight, result_dtype(infer.dtype(0), attrs.f32_result), attrs.format);
}

// The convolution is linear in x and in weight, so the gradients of all three operations consist of
// these three operations.
void conv2d_backward(Backward& ctx) {
  const auto& attrs = ctx.attrs<Conv2dAttrs>();
  if (ctx.needs(0)) {
    ctx.set(0, grad_input(ctx.grad(), ctx.input(1),
                          {attrs, size_of_image(ctx.input_shape(0)), ctx.has_wide_grad(0)}));
  }
  if (ctx.needs(1)) {
    ctx.set(1, grad_weight(ctx.grad(), ctx.input(0),
                           {attrs, size_of_image(ctx.input_shape(1)), ctx.has_wide_grad(1),
                            ctx.input_format(1)}));
  }
  if (ctx.needs(2)) ctx.set(2, sum(ctx.grad(), {0, 2, 3}, false, ctx.grad_dtype(2)));
}

// Each element of the result's gradient belongs to one output pixel and channel. It is multiplied
// by every weight of that channel's filter once, whichever of the three tensors is computed.
double flops_of(const Tensor& result, const Tensor& weight) {
  const auto filter = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  return 2 * static_cast<double>(result.numel()) * filter;
}

// The shapes that the sweeps try, for all three operations.
struct ConvCase {
  Shape x;
  Shape weight;
  Conv2dAttrs attrs{};
};

std::vector<ConvCase> conv_cases() {
  return {
      {{2, 3, 7, 9}, {4, 3, 3, 3}},
      {{2, 3, 8, 8}, {8, 3, 3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{1, 17, 5, 6}, {3, 17, 2, 3}, {.stride = {1, 2}, .padding = {0, 1, 1, 2}}},
      {{2, 16, 6, 6}, {32, 16, 1, 1}},
      {{2, 17, 6, 6}, {5, 17, 1, 1}, {.stride = 2}},
      {{1, 4, 9, 9}, {6, 4, 3, 3}, {.padding = {2, 2, 2, 2}, .dilation = 2}},
      {{2, 8, 6, 5}, {6, 4, 3, 3}, {.padding = {1, 1, 1, 1}, .groups = 2}},
      {{2, 6, 6, 6}, {6, 1, 3, 3}, {.padding = {1, 1, 1, 1}, .groups = 6}},
      {{1, 3, 5, 5}, {6, 1, 3, 3}, {.stride = 2, .groups = 3}},
      {{3, 1, 6, 4}, {2, 1, 5, 3}, {.padding = {2, 2, 1, 1}}},
      {{1, 3, 12, 10}, {4, 3, 7, 7}, {.stride = 2, .padding = {3, 2, 2, 3}}},
      {{0, 3, 5, 5}, {4, 3, 3, 3}},
  };
}

Shape result_shape(const ConvCase& c) {
  const Size2d out =
      c.attrs.window(size_of_image(c.weight)).output_size(size_of_image(c.x), "conv2d");
  return {c.x[0], c.weight[0], out.h, out.w};
}

std::vector<Sample> conv2d_samples() {
  std::vector<Sample> samples;
  bool with_bias = true;
  for (const ConvCase& c : conv_cases()) {
    const std::int64_t terms = c.weight[1] * c.weight[2] * c.weight[3] + 1;
    const SampleInput bias{.shape = {c.weight[0]}, .absent = !with_bias};
    samples.push_back({{{c.x}, {c.weight}, bias}, c.attrs, terms});
    with_bias = !with_bias;
  }
  return samples;
}

std::vector<Sample> grad_input_samples() {
  std::vector<Sample> samples;
  for (const ConvCase& c : conv_cases()) {
    const std::int64_t terms = c.weight[0] / c.attrs.groups * c.weight[2] * c.weight[3];
    const Conv2dGradAttrs attrs{c.attrs, size_of_image(c.x), terms % 2 == 0};
    samples.push_back({{{result_shape(c)}, {c.weight}}, attrs, terms});
  }
  return samples;
}

std::vector<Sample> grad_weight_samples() {
  std::vector<Sample> samples;
  for (const ConvCase& c : conv_cases()) {
    const Shape out = result_shape(c);
    const std::int64_t terms = out[0] * out[2] * out[3];
    const Conv2dGradAttrs attrs{c.attrs, size_of_image(c.weight), c.attrs.groups == 1};
    samples.push_back({{{out}, {c.x}}, attrs, std::max<std::int64_t>(terms, 1)});
  }
  return samples;
}

std::vector<ErrorSample> conv2d_errors() {
  const SampleInput none{.shape = {}, .absent = true};
  return {
      {{{{2, 4, 5, 5}}, {{8, 3, 3, 3}}, none},
       Conv2dAttrs{},
       "[conv2d] weight expects 3 input channels (groups 1), x has 4: x [2, 4, 5, 5], weight "
       "[8, 3, 3, 3]"},
      {{{{4, 5, 5}}, {{8, 4, 3, 3}}, none}, Conv2dAttrs{}, "x must have 4 dimensions"},
      {{{{2, 4, 5, 5}}, {{8, 4}}, none}, Conv2dAttrs{}, "weight must have 4 dimensions"},
      {{{{2, 4, 5, 5}}, {{3, 2, 3, 3}}, none},
       Conv2dAttrs{.groups = 2},
       "the 3 output channels cannot be divided into 2 groups"},
      {{{{2, 4, 5, 5}}, {{8, 4, 3, 3}}, {{4}}},
       Conv2dAttrs{},
       "bias must have the shape [8], one value per output channel, it is [4]"},
      {{{{2, 4, 5, 5}}, {{8, 4, 7, 7}}, none},
       Conv2dAttrs{},
       "the kernel [7, 7] is larger than the padded image [5, 5]"},
      {{{{2, 4, 5, 5}}, {{8, 4, 3, 3}}, none},
       Conv2dAttrs{.stride = 0},
       "the stride must be at least 1, it is [0, 0]"},
      {{{{2, 4, 5, 5}}, {{8, 4, 3, 3}}, none},
       Conv2dAttrs{.padding = {-1, 0, 0, 0}},
       "the padding is negative: [-1, 0, 0, 0]"},
      {{{{2, 4, 5, 5}}, {{8, 4, 3, 3}}, none},
       Conv2dAttrs{.groups = 0},
       "groups must be at least 1, it is 0"},
  };
}

}  // namespace

namespace ops {

extern const OpDef conv2d{
    .name = "conv2d",
    .doc = "x [n, c, h, w] convolved with weight [o, c / groups, kh, kw], plus bias [o]",
    // The bias is not an operand of the product: it is added to the f32 sum, in f32, at no cost.
    // Rounding it to 16 bits first would only lose bits.
    .precision = {.lower = PrecisionClass::kLower,
                  .cast_mask = 0b011,
                  .reason =
                      "products of 16-bit values are exact in f32, where they are added up; 16 "
                      "bits halve the memory traffic and double the arithmetic throughput"},
    .saves = {.inputs = 0b011, .again = 0b001},
    .promote = 0b011,
    .infer = infer_conv2d,
    .flops = [](Inputs inputs, std::span<const Tensor> outputs,
                const Attrs&) { return flops_of(outputs[0], *inputs[1]); },
    .backward = conv2d_backward,
    .samples = conv2d_samples,
    .errors = conv2d_errors,
    .exact = true,
};

extern const OpDef conv2d_grad_input{
    .name = "conv2d_grad_input",
    .doc = "the gradient of conv2d with respect to x, from that of its result and weight",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_grad_input,
    .flops = [](Inputs inputs, std::span<const Tensor>,
                const Attrs&) { return flops_of(*inputs[0], *inputs[1]); },
    .backward =
        [](Backward& ctx) {
          const auto& attrs = ctx.attrs<Conv2dGradAttrs>();
          const Tensor& u = ctx.grad();  // [n, c, h, w], like the result
          if (ctx.needs(0)) {
            const Tensor weight = ctx.input(1);
            ctx.set(0, call_one(ops::conv2d, {&u, &weight, &kAbsent}, attrs.conv));
          }
          if (ctx.needs(1)) {
            ctx.set(1, grad_weight(ctx.input(0), u,
                                   {attrs.conv, size_of_image(ctx.input_shape(1)),
                                    ctx.has_wide_grad(1), ctx.input_format(1)}));
          }
        },
    .samples = grad_input_samples,
    .exact = true,
};

extern const OpDef conv2d_grad_weight{
    .name = "conv2d_grad_weight",
    .doc = "the gradient of conv2d with respect to weight, from that of its result and x",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_grad_weight,
    .flops = [](Inputs inputs, std::span<const Tensor> outputs,
                const Attrs&) { return flops_of(*inputs[0], outputs[0]); },
    .backward =
        [](Backward& ctx) {
          const auto& attrs = ctx.attrs<Conv2dGradAttrs>();
          const Tensor& u = ctx.grad();  // [o, c / groups, kh, kw], like the result
          if (ctx.needs(0)) {
            const Tensor x = ctx.input(1);
            ctx.set(0, call_one(ops::conv2d, {&x, &u, &kAbsent}, attrs.conv));
          }
          if (ctx.needs(1)) {
            ctx.set(1, grad_input(
                           ctx.input(0), u,
                           {attrs.conv, size_of_image(ctx.input_shape(1)), ctx.has_wide_grad(1)}));
          }
        },
    .samples = grad_weight_samples,
    .exact = true,
};

}  // namespace ops

namespace {

Tensor grad_input(const Tensor& grad, const Tensor& weight, const Conv2dGradAttrs& attrs) {
  return call_one(ops::conv2d_grad_input, {&grad, &weight}, attrs);
}

Tensor grad_weight(const Tensor& grad, const Tensor& x, const Conv2dGradAttrs& attrs) {
  return call_one(ops::conv2d_grad_weight, {&grad, &x}, attrs);
}

}  // namespace

namespace {

// A convolution of single pixels is a product of the matrix of all pixels, and may have eight bits.
std::optional<Tensor> conv2d_in_eight_bits(const Tensor& x, const Tensor& weight,
                                           const Tensor& bias, const Conv2dAttrs& attrs) {
  const Tensor* const operands[] = {&x, &weight};
  if (!has_scaled_form(ops::conv2d, operands, attrs)) return std::nullopt;
  const auto product = scaled_product_of(ops::conv2d, x, weight);
  if (!product.has_value()) return std::nullopt;
  const Tensor pixels = permute(to_format(x, Format::kChannelsLast), {0, 2, 3, 1});
  const Tensor y =
      scaled_linear(pixels, reshape(weight, {weight.size(0), weight.size(1)}), bias, *product);
  return permute(y, {0, 3, 1, 2});
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  Conv2dAttrs attrs{options.stride, {}, options.dilation, options.groups, are_sums_exact()};
  if (x.rank() == 4 && weight.rank() == 4) {  // otherwise the call below reports the error
    const Window2d window = attrs.window(size_of_image(weight.shape()));
    window.check_numbers(ops::conv2d.name);
    attrs.padding =
        options.padding.resolve(size_of_image(x.shape()), window.span(), options.stride);
    if (const auto product = conv2d_in_eight_bits(x, weight, bias, attrs)) return *product;
  }
  return call_one(ops::conv2d, {&x, &weight, &bias}, attrs);
}

}  // namespace mezzo
