// Products of matrices of eight bits, on CPUs without instructions for them: the codes are widened
// to bf16, which holds every code exactly, and multiplied by the kernels for bf16. A product of two
// codes has at most 8 bits, so it is exact in the f32 in which they are added up: what differs from
// a processor that multiplies eight bits is the order of the sum alone.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/scaled_matmul.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/scaled_product.h"
#include "mezzo/kernels/cpu/simd/float8-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/scale_factor.h"
#include "mezzo/ops/scaled_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

template <class In>
void widen_row(const In* codes, std::int64_t n, BFloat16* out) {
  std::int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) store(load(codes + i), out + i);
  if (i < n) store_part(load_part(codes + i, n - i), out + i, n - i);
}

template <class In>
void widen_row_by_one(const In* codes, std::int64_t n, float scale, BFloat16* out) {
  const auto times = hn::Set(F32(), scale);
  std::int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) store(hn::Mul(load(codes + i), times), out + i);
  if (i < n) store_part(hn::Mul(load_part(codes + i, n - i), times), out + i, n - i);
}

template <class In>
void widen_row_by_many(const In* codes, std::int64_t n, const std::uint8_t* scales, BFloat16* out) {
  constexpr std::int64_t kPiece = 256;
  alignas(64) float factors[kPiece];
  for (std::int64_t first = 0; first < n; first += kPiece) {
    const std::int64_t count = std::min(kPiece, n - first);
    for (std::int64_t i = 0; i < count; ++i) factors[i] = block_scale(scales[first + i]);
    std::int64_t i = 0;
    for (; i + lanes() <= count; i += lanes()) {
      store(hn::Mul(load(codes + first + i), load(factors + i)), out + first + i);
    }
    if (i < count) {
      store_part(
          hn::Mul(load_part(codes + first + i, count - i), load_part(factors + i, count - i)),
          out + first + i, count - i);
    }
  }
}

}  // namespace

// The codes as bf16, times the scales of their blocks if they have any. A power of two moves the
// exponent alone, so the product is exact but beyond bf16's range, where blocks are smaller than
// 2^-126 or larger than its largest number.
void widen_codes(const kernels::WidenedCodes& call) {
  const std::int64_t rows = call.rows;
  const std::int64_t columns = call.columns;
  const std::int64_t grain = kElementGrain / (columns + 1) + 1;
  const auto widen = [&]<class In>(const In* codes) {
    parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const In* const from = codes + row * columns;
        BFloat16* const to = call.out + row * columns;
        if (call.scales == nullptr) {
          widen_row(from, columns, to);
        } else if (call.along_columns) {
          widen_row_by_many(from, columns, call.scales + row / kBlock * columns, to);
        } else {
          const std::int64_t blocks = ceil_div(columns, kBlock);
          for (std::int64_t b = 0; b < blocks; ++b) {
            const std::int64_t at = b * kBlock;
            widen_row_by_one(from + at, std::min(kBlock, columns - at),
                             block_scale(call.scales[row * blocks + b]), to + at);
          }
        }
      }
    });
  };
  if (call.dtype == DType::kE4m3) {
    widen(static_cast<const Float8E4M3*>(call.codes));
  } else {
    widen(static_cast<const Float8E5M2*>(call.codes));
  }
}

// out[i][j] = (sums[i][j] * a) * b + bias[j]; a scale that is not there is 1.
void scale_sums(const kernels::ScaledSums& call) {
  const std::int64_t n = call.columns;
  const std::int64_t grain = kElementGrain / (n + 1) + 1;
  kernels::visit_vector_dtype(call.out.dtype(), [&]<class Out>() {
    auto* const out = call.out.template mutable_data<Out>();
    parallel_for(call.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float own = call.a == nullptr ? 1 : call.a[call.by_line ? i : 0];
        const auto a = hn::Set(F32(), own);
        const auto b = hn::Set(F32(), call.b == nullptr || call.by_line ? 1 : call.b[0]);
        const float* const sums = call.sums + i * n;
        const auto at = [&](std::int64_t j, auto read) HWY_ATTR {
          const auto other = call.by_line ? read(call.b + j) : b;
          const auto bias = call.bias != nullptr ? read(call.bias + j) : hn::Zero(F32());
          // Both scales together may be out of range where the result is not.
          return hn::Add(hn::Mul(hn::Mul(read(sums + j), a), other), bias);
        };
        std::int64_t j = 0;
        for (; j + lanes() <= n; j += lanes()) {
          store(at(j, [](const float* p) HWY_ATTR { return load(p); }), out + i * n + j);
        }
        if (j < n) {
          const auto part = [&](const float* p) HWY_ATTR { return load_part(p, n - j); };
          store_part(at(j, part), out + i * n + j, n - j);
        }
      }
    });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(widen_codes);
HWY_EXPORT(scale_sums);

Tensor widened(const Tensor& codes, const Tensor& scales, ScaleBy by, bool along_columns) {
  const Tensor from = dense(codes, Format::kContiguous);
  const Tensor powers = by == ScaleBy::kBlock ? dense(scales, Format::kContiguous) : Tensor();
  const Tensor out = empty(codes.shape(), DType::kBf16);
  HWY_DYNAMIC_DISPATCH(widen_codes)
  ({.codes = from.raw_data(),
    .dtype = codes.dtype(),
    .rows = codes.size(0),
    .columns = codes.size(1),
    .scales = powers.defined() ? powers.data<std::uint8_t>() : nullptr,
    .along_columns = along_columns,
    .out = out.mutable_data<BFloat16>()});
  return out;
}

void run_scaled_matmul(const KernelArgs& args) {
  const auto& attrs = args.attrs<ScaledMatmulAttrs>();
  const Tensor a = widened(args.input(0), args.input(1), attrs.by, attrs.transpose_a);
  const Tensor b = widened(args.input(2), args.input(3), attrs.by, !attrs.transpose_b);
  Tensor sums = empty(args.output().shape(), DType::kF32);
  const Tensor* operands[] = {&a, &b};
  run_kernel(ops::matmul, operands, {&sums, 1},
             MatmulAttrs{attrs.transpose_a, attrs.transpose_b, true});
  const Tensor bias = args.has(4) ? dense_f32(args.input(4)) : Tensor();
  const bool is_scaled = attrs.by != ScaleBy::kBlock;
  const Tensor scales_a = is_scaled ? dense_f32(args.input(1)) : Tensor();
  const Tensor scales_b = is_scaled ? dense_f32(args.input(3)) : Tensor();
  HWY_DYNAMIC_DISPATCH(scale_sums)
  ({.sums = sums.data<float>(),
    .rows = sums.size(0),
    .columns = sums.size(1),
    .a = is_scaled ? scales_a.data<float>() : nullptr,
    .b = is_scaled ? scales_b.data<float>() : nullptr,
    .by_line = attrs.by == ScaleBy::kLine,
    .bias = bias.defined() ? bias.data<float>() : nullptr,
    .out = args.output()});
}

}  // namespace

extern const KernelList scaled_matmul = {{{{"cpu_widened", nullptr, run_scaled_matmul}}}};

}  // namespace mezzo::kernels::cpu
#endif
