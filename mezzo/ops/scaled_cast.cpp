#include "mezzo/ops/scaled_cast.h"

#include "mezzo/core/math.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/scale_factor.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

Shape scale_shape(const Shape& x, const ScaledCastAttrs& attrs) {
  switch (attrs.by) {
    case ScaleBy::kTensor: return {1};
    case ScaleBy::kLine: return {x[attrs.columns ? 1 : 0]};
    case ScaleBy::kBlock:
      return attrs.columns ? Shape{ceil_div(x[0], kBlock), x[1]}
                           : Shape{x[0], ceil_div(x[1], kBlock)};
  }
  return {};
}

void infer_scaled_cast(Infer& infer) {
  const auto& attrs = infer.attrs<ScaledCastAttrs>();
  infer.check_rank(0, 2, "x");
  infer.check(is_trainable(infer.dtype(0)), "x must be ", trainable_dtypes(), ", it is ",
              infer.input(0), ". Use cast()");
  infer.check(is_eight_bit(attrs.dtype), "the dtype must be e4m3 or e5m2, it is ", attrs.dtype,
              ". Use cast() for others");
  if (infer.has(1)) {
    infer.check(attrs.by == ScaleBy::kTensor && infer.shape(1).numel() == 1 &&
                    infer.dtype(1) == DType::kF32,
                "a given scale must be f32[1], for the whole tensor; it is ", infer.input(1),
                " by ", attrs.by, ". Leave it out");
  }
  infer.output(infer.shape(0), attrs.dtype);
  infer.output(scale_shape(infer.shape(0), attrs),
               attrs.by == ScaleBy::kBlock ? DType::kU8 : DType::kF32);
  if (attrs.by == ScaleBy::kTensor) infer.output({1}, DType::kF32);
}

// The scales as a matrix that broadcasts to the codes; of a block, one for each element.
Tensor scales_over(const ScaledTensor& x) {
  const Shape& shape = x.codes.shape();
  if (x.by == ScaleBy::kTensor) return reshape(x.scales, {1, 1});
  if (x.by == ScaleBy::kLine) {
    return reshape(x.scales, x.columns ? Shape{1, shape[1]} : Shape{shape[0], 1});
  }
  const Tensor codes = x.scales.to(kCpuDevice);
  const auto* const code = codes.data<std::uint8_t>();
  const Tensor scales = empty(shape, DType::kF32);
  auto* const out = scales.mutable_data<float>();
  const std::int64_t width = codes.shape()[1];
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      const std::int64_t at = x.columns ? i / kBlock * width + j : i * width + j / kBlock;
      out[i * shape[1] + j] = block_scale(code[at]);
    }
  }
  return scales.to(x.codes.device());
}

std::vector<Sample> scaled_cast_samples() {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kE4m3, DType::kE5m2}) {
    for (const ScaleBy by : kScaleBys) {
      for (const bool columns : {false, true}) {
        const ScaledCastAttrs attrs{dtype, by, columns};
        samples.push_back({{{{3, 5}, -4, 4}}, attrs});
        samples.push_back({{{{70, 97}, -1000, 1000}}, attrs});
        samples.push_back({{{{1, 64}}}, attrs});
      }
    }
    samples.push_back(
        {{{{17, 33}, -9, 9}, {.shape = {1}, .low = 0.5, .high = 100, .dtype = DType::kF32}},
         ScaledCastAttrs{dtype}});
  }
  samples.push_back({{{{0, 5}}}, ScaledCastAttrs{}});
  return samples;
}

std::vector<ErrorSample> scaled_cast_errors() {
  return {{{{{2, 3, 4}}}, ScaledCastAttrs{}, "x must have 2 dimensions"},
          {{{{2, 3}}}, ScaledCastAttrs{DType::kBf16}, "the dtype must be e4m3 or e5m2, it is bf16"},
          {{{{2, 3}}, {{2}}}, ScaledCastAttrs{}, "a given scale must be f32[1]"},
          {{{{2, 3}, 0, 9, true}}, ScaledCastAttrs{}, "x must be f32, bf16 or f16"}};
}

}  // namespace

namespace ops {

extern const OpDef scaled_cast{
    .name = "scaled_cast",
    .doc =
        "x [rows, columns] times its scales, rounded to eight bits; the scales are of the tensor, "
        "of lines or of blocks",
    .precision = {.cast_mask = 0,
                  .reason = "rounds what it is given, once: a cast to 16 bits before it would be a "
                            "second rounding"},
    .infer = infer_scaled_cast,
    .samples = scaled_cast_samples,
    .errors = scaled_cast_errors,
};

}  // namespace ops

ScaledTensor scaled_cast(const Tensor& x, const ScaledCastOptions& options) {
  const NoGrad no_grad;
  const ScaledCastAttrs attrs{options.dtype, options.by, options.columns};
  const Tensor dense = contiguous(x.detach());
  Outputs outputs = call(ops::scaled_cast, {&dense, &options.scale}, attrs);
  ScaledTensor result{outputs[0], outputs[1], {}, options.by, options.columns};
  if (options.by == ScaleBy::kTensor) result.amax = outputs[2];
  return result;
}

Tensor unscaled(const ScaledTensor& x) {
  const NoGrad no_grad;
  const WithoutPrecisionHook outside;
  return mul(cast(x.codes, DType::kF32), scales_over(x));
}

}  // namespace mezzo
