#include "mezzo/ops/scaled_matmul.h"

#include "mezzo/core/math.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {
namespace {

enum In : std::size_t { kA, kScalesA, kB, kScalesB, kBias };

// One operand: its size across and along the sum, and what its scales must look like.
struct Operand {
  std::int64_t across = 0;
  std::int64_t along = 0;
  Shape scales;
};

Operand operand_of(const Shape& codes, bool sums_rows, ScaleBy by) {
  Operand result{codes[sums_rows ? 1 : 0], codes[sums_rows ? 0 : 1], {1}};
  const std::int64_t blocks = ceil_div(result.along, kBlock);
  if (by == ScaleBy::kLine) result.scales = {result.across};
  if (by == ScaleBy::kBlock) {
    result.scales = sums_rows ? Shape{blocks, result.across} : Shape{result.across, blocks};
  }
  return result;
}

Operand checked_operand(const Infer& infer, std::size_t i, bool sums_rows, const char* name) {
  const auto& attrs = infer.attrs<ScaledMatmulAttrs>();
  infer.check_rank(i, 2, name);
  infer.check(is_eight_bit(infer.dtype(i)), name, " must be e4m3 or e5m2, it is ", infer.input(i),
              ". Use scaled_cast()");
  Operand operand = operand_of(infer.shape(i), sums_rows, attrs.by);
  const DType wanted = attrs.by == ScaleBy::kBlock ? DType::kU8 : DType::kF32;
  infer.check(infer.shape(i + 1) == operand.scales && infer.dtype(i + 1) == wanted,
              "the scales of ", name, " must be ", wanted, operand.scales, " by ", attrs.by,
              ", they are ", infer.input(i + 1),
              ". Cast along the dimension that the product sums over");
  return operand;
}

void infer_scaled_matmul(Infer& infer) {
  const auto& attrs = infer.attrs<ScaledMatmulAttrs>();
  const Operand a = checked_operand(infer, kA, attrs.transpose_a, "a");
  const Operand b = checked_operand(infer, kB, !attrs.transpose_b, "b");
  infer.check(a.along == b.along, "inner sizes differ: ", a.along, " and ", b.along, ", a is ",
              infer.shape(kA), attrs.transpose_a ? " transposed" : "", ", b is ", infer.shape(kB),
              attrs.transpose_b ? " transposed" : "", ". Transpose one of them");
  infer.check(is_trainable(attrs.dtype), "the result can be ", trainable_dtypes(), ", not ",
              attrs.dtype);
  if (infer.has(kBias)) {
    infer.check(infer.shape(kBias) == Shape{b.across}, "bias must have the shape ", Shape{b.across},
                ", one value per column, it is ", infer.shape(kBias),
                ". Use reshape(), or leave it out");
  }
  infer.output({a.across, b.across}, attrs.dtype);
}

// The scales of a product's operand lie across its sum.
bool sums_over_columns(const ScaledTensor& x, bool sums_rows) {
  return x.by == ScaleBy::kTensor || x.columns == sums_rows;
}

SampleInput codes_of(const Shape& shape, DType dtype) {
  return {.shape = shape, .low = -4, .high = 4, .dtype = dtype};
}

SampleInput scales_of(const Shape& shape, ScaleBy by) {
  if (by != ScaleBy::kBlock) return {.shape = shape, .low = 0.5, .high = 2, .dtype = DType::kF32};
  return {.shape = shape, .low = 126, .high = 129, .integer = true, .dtype = DType::kU8};
}

// A product of sizes m, k, n.
Sample sample_of(const Shape& sizes, ScaledMatmulAttrs attrs, DType of_b, bool has_bias) {
  const std::int64_t m = sizes[0];
  const std::int64_t k = sizes[1];
  const std::int64_t n = sizes[2];
  const Shape a = attrs.transpose_a ? Shape{k, m} : Shape{m, k};
  const Shape b = attrs.transpose_b ? Shape{n, k} : Shape{k, n};
  Sample sample{.attrs = attrs, .terms = k, .magnitude = 256};
  sample.inputs = {codes_of(a, DType::kE4m3),
                   scales_of(operand_of(a, attrs.transpose_a, attrs.by).scales, attrs.by),
                   codes_of(b, of_b),
                   scales_of(operand_of(b, !attrs.transpose_b, attrs.by).scales, attrs.by)};
  if (has_bias) sample.inputs.push_back({.shape = {n}});
  return sample;
}

std::vector<Sample> scaled_matmul_samples() {
  std::vector<Sample> samples;
  for (const ScaleBy by : kScaleBys) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const ScaledMatmulAttrs attrs{transpose_a, transpose_b, by, DType::kF32};
        samples.push_back(sample_of({4, 5, 6}, attrs, DType::kE4m3, false));
        samples.push_back(sample_of({33, 70, 17}, attrs, DType::kE5m2, true));
      }
    }
    samples.push_back(sample_of({16, 64, 32}, {false, true, by}, DType::kE4m3, true));
    samples.push_back(sample_of({1, 33, 1}, {false, true, by, DType::kF16}, DType::kE4m3, false));
  }
  return samples;
}

std::vector<ErrorSample> scaled_matmul_errors() {
  const SampleInput scale = scales_of({1}, ScaleBy::kTensor);
  const auto codes = [](const Shape& shape) { return codes_of(shape, DType::kE4m3); };
  const ScaledMatmulAttrs by_line{.by = ScaleBy::kLine};
  return {{{codes({2, 3}), scale, codes({4, 5}), scale},
           ScaledMatmulAttrs{},
           "inner sizes differ: 3 and 4"},
          {{{{2, 3}}, scale, codes({3, 5}), scale},
           ScaledMatmulAttrs{},
           "a must be e4m3 or e5m2, it is f32"},
          {{codes({2, 3}), scale, codes({3, 5}), scale},
           by_line,
           "the scales of a must be f32[2] by line"},
          {{codes({2, 3}), scale, codes({3, 5}), scale, {{4}}},
           ScaledMatmulAttrs{},
           "bias must have the shape [5]"}};
}

}  // namespace

namespace ops {

extern const OpDef scaled_matmul{
    .name = "scaled_matmul",
    .doc =
        "the product of a [m, k] and b [k, n] of eight bits, each with its scales, plus bias [n], "
        "in f32 or 16 bits",
    .precision = {.cast_mask = 0,
                  .reason =
                      "its operands have eight bits; products of them are exact in f32, where "
                      "they are added up"},
    .infer = infer_scaled_matmul,
    .flops =
        [](Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) {
          const std::size_t inner = attrs.as<ScaledMatmulAttrs>().transpose_a ? 0 : 1;
          return 2 * static_cast<double>(outputs[0].numel()) *
                 static_cast<double>(inputs[kA]->size(static_cast<int>(inner)));
        },
    .samples = scaled_matmul_samples,
    .errors = scaled_matmul_errors,
    .takes_eight_bits = true,
};

}  // namespace ops

Tensor scaled_matmul(const ScaledTensor& a, const ScaledTensor& b,
                     const ScaledMatmulOptions& options) {
  const NoGrad no_grad;
  check_arg(a.by == b.by && sums_over_columns(a, options.transpose_a) &&
                sums_over_columns(b, !options.transpose_b),
            "scaled_matmul", "a has scales by ", a.by, a.columns ? " along columns" : "", ", b by ",
            b.by, b.columns ? " along columns" : "", ", and a is",
            options.transpose_a ? "" : " not", " transposed, b is",
            options.transpose_b ? "" : " not",
            ". Cast both in one way, along the dimension that the product sums over");
  const ScaledMatmulAttrs attrs{options.transpose_a, options.transpose_b, a.by, options.dtype};
  return call(ops::scaled_matmul, {&a.codes, &a.scales, &b.codes, &b.scales, &options.bias},
              attrs)[0];
}

}  // namespace mezzo
