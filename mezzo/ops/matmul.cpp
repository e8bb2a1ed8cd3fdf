#include "mezzo/ops/matmul.h"

#include <algorithm>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/as_rows.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/scaled_linear.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

constexpr const char* kProductReason =
    "products of 16-bit values are exact in f32, where they are added up; 16 bits halve the memory "
    "traffic and double the arithmetic throughput";

// The leading dimensions: all but the last two.
Shape leading(const Shape& shape) { return Shape({shape.begin(), shape.rank() - 2}); }

void infer_matmul(Infer& infer) {
  const auto& attrs = infer.attrs<MatmulAttrs>();
  const Shape& a = infer.shape(0);
  const Shape& b = infer.shape(1);
  infer.check(a.rank() >= 2, "a must have at least 2 dimensions, the shape is ", a,
              ". Use reshape()");
  infer.check(b.rank() >= 2, "b must have at least 2 dimensions, the shape is ", b,
              ". Use reshape()");
  infer.check_same_dtype(0, 1);
  const std::int64_t m = a[a.rank() - (attrs.transpose_a ? 1 : 2)];
  const std::int64_t inner_a = a[a.rank() - (attrs.transpose_a ? 2 : 1)];
  const std::int64_t inner_b = b[b.rank() - (attrs.transpose_b ? 1 : 2)];
  const std::int64_t n = b[b.rank() - (attrs.transpose_b ? 2 : 1)];
  infer.check(inner_a == inner_b, "inner sizes differ: ", inner_a, " and ", inner_b, ", a is ", a,
              attrs.transpose_a ? " transposed" : "", ", b is ", b,
              attrs.transpose_b ? " transposed" : "", ". Transpose or reshape() one of them");
  if (infer.has(2)) {
    infer.check(infer.shape(2) == Shape{n}, "bias must have the shape ", Shape{n},
                ", one value per column, it is ", infer.shape(2),
                ". Use reshape(), or leave it out");
  }
  Shape out = broadcast(leading(a), leading(b), infer.op());
  out.push_back(m);
  out.push_back(n);
  const bool wide = attrs.f32_result && is_lower(infer.dtype(0));
  infer.output(out, wide ? DType::kF32 : infer.dtype(0));
}

double flops_of(const Tensor& product, std::int64_t terms) {
  return 2 * static_cast<double>(product.numel()) * static_cast<double>(terms);
}

// With C = A B, the gradient of A is G B^T and that of B is A^T G. An operand that was transposed
// gets the transpose of that.
//
// Whether the products for the gradient of input i stay f32. If an input was broadcast along an
// axis, its products are summed, and would otherwise be rounded before that.
bool stays_f32(const Backward& ctx, std::size_t i) {
  if (ctx.has_wide_grad(i)) return true;
  const Shape& grad = ctx.grad().shape();
  const Shape& input = ctx.input_shape(i);
  const bool is_same_batch =
      grad.rank() == input.rank() && std::equal(grad.begin(), grad.end() - 2, input.begin());
  return is_lower(ctx.input_dtype(i)) && !is_same_batch;
}

void matmul_backward(Backward& ctx) {
  const auto& attrs = ctx.attrs<MatmulAttrs>();
  const Tensor& grad = ctx.grad();
  if (ctx.needs(0)) {
    const Tensor b = ctx.input(1);
    const bool wide = stays_f32(ctx, 0);
    const Tensor product = attrs.transpose_a
                               ? mezzo::matmul(b, grad, {attrs.transpose_b, true, wide})
                               : mezzo::matmul(grad, b, {false, !attrs.transpose_b, wide});
    ctx.set(0, sum_to(product, ctx.input_shape(0), ctx.grad_dtype(0)));
  }
  if (ctx.needs(1)) {
    const Tensor a = ctx.input(0);
    const bool wide = stays_f32(ctx, 1);
    const Tensor product = attrs.transpose_b
                               ? mezzo::matmul(grad, a, {true, attrs.transpose_a, wide})
                               : mezzo::matmul(a, grad, {!attrs.transpose_a, false, wide});
    ctx.set(1, sum_to(product, ctx.input_shape(1), ctx.grad_dtype(1)));
  }
  if (ctx.inputs() > 2 && ctx.needs(2)) {
    ctx.set(2, sum_to(grad, ctx.input_shape(2), ctx.grad_dtype(2)));
  }
}

std::vector<Sample> matmul_samples() {
  const auto product = [](const Shape& a, const Shape& b, MatmulAttrs attrs, std::int64_t terms) {
    return Sample{{{a}, {b}}, attrs, terms};
  };
  const auto with_bias = [&](const Shape& a, const Shape& b, MatmulAttrs attrs,
                             std::int64_t terms) {
    Sample sample = product(a, b, attrs, terms);
    sample.inputs.push_back({{b[b.rank() - (attrs.transpose_b ? 2 : 1)]}});
    return sample;
  };
  return {product({4, 5}, {5, 6}, {}, 5),
          product({5, 4}, {5, 6}, {.transpose_a = true}, 5),
          product({4, 5}, {6, 5}, {.transpose_b = true}, 5),
          product({17, 3}, {33, 17}, {true, true}, 17),
          product({33, 64}, {64, 48}, {}, 64),
          product({1, 7}, {7, 1}, {}, 7),
          product({2, 3, 4, 5}, {2, 3, 5, 6}, {}, 5),
          product({2, 3, 5, 4}, {2, 3, 6, 5}, {true, true}, 5),
          product({3, 4, 5}, {5, 2}, {}, 5),
          product({4, 5}, {3, 5, 2}, {}, 5),
          product({2, 1, 4, 5}, {3, 5, 2}, {.f32_result = true}, 5),
          product({2, 1, 2, 1, 3, 5}, {1, 2, 2, 3, 5, 2}, {}, 5),
          product({0, 5}, {5, 3}, {}, 5),
          product({4, 0}, {0, 3}, {}, 1),
          product({0, 4, 5}, {0, 5, 3}, {}, 5),
          with_bias({4, 5}, {5, 6}, {}, 6),
          with_bias({2, 3, 4, 5}, {2, 3, 6, 5}, {.transpose_b = true}, 6),
          with_bias({3, 17, 33}, {33, 48}, {.f32_result = true}, 34)};
}

std::vector<ErrorSample> matmul_errors() {
  return {{{{{4, 3}}, {{4, 4}}}, MatmulAttrs{}, "inner sizes differ: 3 and 4, a is [4, 3], b is"},
          {{{{2, 4, 3}}, {{3, 3, 4}}}, MatmulAttrs{}, "cannot be broadcast together: [2] and [3]"},
          {{{{3}}, {{3, 4}}}, MatmulAttrs{}, "a must have at least 2 dimensions"},
          {{{{2, 3}}, {{3, 4}}, {{3}}}, MatmulAttrs{}, "bias must have the shape [4], one value"}};
}

void infer_linear(Infer& infer) {
  infer.check(infer.shape(0).rank() >= 1, "x must have at least 1 dimension. Use reshape()");
  infer.check_rank(1, 2, "weight");
  infer.check_same_dtype(0, 1);
  const Shape& weight = infer.shape(1);
  Shape out = infer.shape(0);
  infer.check(out.back() == weight[1], "weight expects ", weight[1], " input features, x has ",
              out.back(), ": x ", out, ", weight ", weight,
              ". Change x, or the layer's in_features");
  if (infer.has(2)) {
    infer.check(infer.shape(2) == Shape{weight[0]}, "bias must have the shape ", Shape{weight[0]},
                ", one value per output feature, it is ", infer.shape(2),
                ". Use reshape(), or leave it out");
  }
  out.back() = weight[0];
  infer.output(out, infer.dtype(0));
}

void linear_backward(Backward& ctx) {
  const Tensor& grad = ctx.grad();
  if (ctx.needs(0)) ctx.set(0, matmul(grad, ctx.input(1), {.f32_result = ctx.has_wide_grad(0)}));
  if (!ctx.needs(1) && !ctx.needs(2)) return;
  const Tensor rows = as_rows(grad);
  if (ctx.needs(1)) {
    ctx.set(1, matmul(rows, as_rows(ctx.input(0)),
                      {.transpose_a = true, .f32_result = ctx.has_wide_grad(1)}));
  }
  if (ctx.needs(2)) ctx.set(2, sum(rows, {0}, false, ctx.grad_dtype(2)));
}

std::vector<Sample> linear_samples() {
  const SampleInput none{.shape = {}, .absent = true};
  return {
      {{{{4, 5}}, {{3, 5}}, {{3}}}, {}, 6},     {{{{2, 3, 16}}, {{33, 16}}, {{33}}}, {}, 17},
      {{{{17}}, {{3, 17}}, {{3}}}, {}, 18},     {{{{1, 65}}, {{1, 65}}, none}, {}, 65},
      {{{{64, 48}}, {{32, 48}}, none}, {}, 48}, {{{{2, 1, 2, 1, 2, 3}}, {{4, 3}}, {{4}}}, {}, 4},
      {{{{0, 5}}, {{3, 5}}, {{3}}}, {}, 6},     {{{{2, 0}}, {{3, 0}}, {{3}}}, {}, 1}};
}

std::vector<ErrorSample> linear_errors() {
  return {{{{{4, 5}}, {{3, 6}}},
           {},
           "[linear] weight expects 6 input features, x has 5: x [4, 5], weight [3, 6]"},
          {{{{4, 5}}, {{3, 5}}, {{5}}},
           {},
           "bias must have the shape [3], one value per output feature, it is [5]"},
          {{{{4, 5}}, {{5}}}, {}, "weight must have 2 dimensions"}};
}

}  // namespace

namespace ops {

extern const OpDef matmul{
    .name = "matmul",
    .doc =
        "the matrix products of a [..., m, k] and b [..., k, n], plus bias [n]; leading "
        "dimensions broadcast",
    .precision = {.lower = PrecisionClass::kLower, .cast_mask = 0b011, .reason = kProductReason},
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_matmul,
    .flops =
        [](Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) {
          const int inner = attrs.as<MatmulAttrs>().transpose_a ? -2 : -1;
          return flops_of(outputs[0], inputs[0]->size(inner));
        },
    .backward = matmul_backward,
    .samples = matmul_samples,
    .errors = matmul_errors,
    .exact = true,
};

extern const OpDef linear{
    .name = "linear",
    .doc = "x [..., in] times the transpose of weight [out, in], plus bias [out]",
    // The bias is added to the f32 sum, in f32, at no cost; rounding it first would only lose bits.
    .precision = {.lower = PrecisionClass::kLower, .cast_mask = 0b011, .reason = kProductReason},
    .saves = {.inputs = 0b011},
    .promote = 0b011,
    .infer = infer_linear,
    .flops = [](Inputs inputs, std::span<const Tensor> outputs,
                const Attrs&) { return flops_of(outputs[0], inputs[1]->size(1)); },
    .backward = linear_backward,
    .samples = linear_samples,
    .errors = linear_errors,
    .exact = true,
};

}  // namespace ops

namespace {

// Products with one matrix for all rows of a may have eight bits. Others are those of attention,
// whose scores stay in 16.
std::optional<Tensor> matmul_in_eight_bits(const Tensor& a, const Tensor& b,
                                           const MatmulOptions& options) {
  const MatmulAttrs attrs{options.transpose_a, options.transpose_b, options.f32_result};
  const Tensor* const operands[] = {&a, &b};
  if (!has_scaled_form(ops::matmul, operands, attrs)) return std::nullopt;
  const auto product = scaled_product_of(ops::matmul, a, b);
  if (!product.has_value()) return std::nullopt;
  const std::int64_t inner = b.size(options.transpose_b ? 1 : 0);
  if (a.size(options.transpose_a ? -2 : -1) != inner) return std::nullopt;  // an error of matmul's
  const auto swapped = [](const Tensor& x) { return transpose(x, -1, -2); };
  return scaled_linear(options.transpose_a ? swapped(a) : a, options.transpose_b ? b : swapped(b),
                       Tensor(), *product);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  if (const auto product = matmul_in_eight_bits(a, b, options)) return *product;
  MatmulAttrs attrs{options.transpose_a, options.transpose_b, options.f32_result};
  if (a.rank() != 1 && b.rank() != 1) return call_one(ops::matmul, {&a, &b}, attrs);
  // Transposing a vector changes nothing.
  attrs.transpose_a = attrs.transpose_a && a.rank() != 1;
  attrs.transpose_b = attrs.transpose_b && b.rank() != 1;
  const Tensor left = a.rank() == 1 ? reshape(a, {1, a.shape()[0]}) : a;
  const Tensor right = b.rank() == 1 ? reshape(b, {b.shape()[0], 1}) : b;
  const Tensor product = call_one(ops::matmul, {&left, &right}, attrs);
  Shape shape = product.shape();
  if (b.rank() == 1) shape.erase(shape.rank() - 1);
  if (a.rank() == 1) shape.erase(shape.rank() - (b.rank() == 1 ? 1 : 2));
  return reshape(product, shape);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (const auto product = scaled_product_of(ops::linear, x, weight)) {
    return scaled_linear(x, weight, bias, *product);
  }
  return call_one(ops::linear, {&x, &weight, &bias});
}

}  // namespace mezzo
