// Products of matrices of eight bits: by cuBLASLt where the GPU has Tensor Cores for them, or as
// products of bf16, which holds every code exactly. A product of two codes has at most 8 bits, so
// it is exact in the f32 in which either way adds them up.
#include "mezzo/core/math.h"
#include "mezzo/kernels/cuda/bias.cuh"
#include "mezzo/kernels/cuda/cublas_plan.h"
#include "mezzo/kernels/cuda/memory.h"
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/kernels/cuda/scaled_operand.cuh"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/scale_factor.h"
#include "mezzo/ops/scaled_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

enum In : std::size_t { kA, kScalesA, kB, kScalesB, kBias };

constexpr std::int64_t kMultiple = 16;  // of sizes in elements, and of addresses in bytes

bool is_aligned_for_library(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.address()) % kMultiple == 0;
}

// The product without its bias, of operands whose sums run along rows.
Product product_of(const KernelArgs& args) {
  const auto& attrs = args.attrs<ScaledMatmulAttrs>();
  Product p;
  p.m = args.output().size(0);
  p.n = args.output().size(1);
  p.k = args.input(kA).size(attrs.transpose_a ? 0 : 1);
  p.transpose_b = true;
  p.dtype = args.input(kA).dtype();
  p.result = args.output().dtype();
  p.eight_bits = {args.input(kB).dtype(), attrs.by};
  return p;
}

// The plan, and in `p` what it is for: a product with its bias, or f32 sums that the bias is added
// to, if cuBLASLt takes no bias of this dtype or has no such algorithm. Rounded sums plus a bias
// would be rounded twice.
const CublasPlan* plan_of(const KernelArgs& args, Context& context, Product& p) {
  p = product_of(args);
  if (!args.has(kBias)) return find_plan(context, p);
  const Tensor& bias = args.input(kBias);
  if (bias.dtype() == bias_dtype(p) && bias.is_dense() && is_aligned_for_library(bias)) {
    p.has_bias = true;
    if (const CublasPlan* plan = find_plan(context, p)) return plan;
    p.has_bias = false;
  }
  p.result = DType::kF32;
  return find_plan(context, p);
}

// What the documentation of cublasLtMatmul() asks for: the tables of its types, and of the modes of
// scales.
Support fits_card(const KernelArgs& args, int capability) {
  const ScaleBy by = args.attrs<ScaledMatmulAttrs>().by;
  if (capability < 89) return Support::no("the GPU has no products of eight bits");
  if (args.input(kA).dtype() == DType::kE5m2 && args.input(kB).dtype() == DType::kE5m2) {
    return Support::no("cuBLASLt has no products of e5m2 and e5m2");
  }
  if (by == ScaleBy::kLine && capability != 90) {
    return Support::no("scales of lines take compute capability 9.0");
  }
  if (by == ScaleBy::kBlock && capability < 100) {
    return Support::no("scales of blocks take compute capability 10.0");
  }
  return Support::yes();
}

Support fits_sizes(const KernelArgs& args) {
  const Product p = product_of(args);
  const bool turns_a = args.attrs<ScaledMatmulAttrs>().transpose_a;
  const std::int64_t of_terms = p.eight_bits->by == ScaleBy::kBlock ? kBlock : kMultiple;
  if (p.k % of_terms != 0 || p.n % kMultiple != 0 || (turns_a && p.m % kMultiple != 0)) {
    return Support::no("sizes are not multiples of 16, or of 32 along blocks");
  }
  if (p.m * p.n * p.k == 0) return Support::no("there is nothing to add up");
  for (const Tensor* tensor : {&args.input(kA), &args.input(kB), &args.output()}) {
    if (!is_aligned_for_library(*tensor)) return Support::no("a matrix is not aligned to 16 bytes");
  }
  return Support::yes();
}

Support has_plan(const KernelArgs& args) {
  const Launch launch(args.output());
  if (const Support card = fits_card(args, launch.context().capability()); !card) return card;
  if (const Support sizes = fits_sizes(args); !sizes) return sizes;
  Product p;
  return plan_of(args, launch.context(), p) != nullptr
             ? Support::yes()
             : Support::no("cuBLASLt has no algorithm for this product");
}

// Codes [lines, terms].
Tensor codes_along_rows(const Launch& launch, const Tensor& codes, bool sums_rows) {
  const Tensor from = dense(codes, Format::kContiguous);
  return sums_rows ? transposed_codes(launch, from) : from;
}

Tensor scales_for_library(const Launch& launch, const Tensor& scales, ScaleBy by, bool sums_rows) {
  const Tensor from = dense(scales, Format::kContiguous);
  return by == ScaleBy::kBlock ? tiled_scales(launch, from, sums_rows) : from;
}

Tensor f32_like(const Tensor& output) {
  return empty(output.shape(), DType::kF32, Format::kContiguous, output.device());
}

void run_cublaslt(const KernelArgs& args) {
  const auto& attrs = args.attrs<ScaledMatmulAttrs>();
  const Tensor& output = args.output();
  const Launch launch(output);
  Product p;
  const CublasPlan* found = plan_of(args, launch.context(), p);
  const CublasPlan& plan =
      found != nullptr ? *found : plan_again(launch.context(), p, "scaled_matmul");
  const Tensor a = codes_along_rows(launch, args.input(kA), attrs.transpose_a);
  const Tensor b = codes_along_rows(launch, args.input(kB), !attrs.transpose_b);
  const Tensor scales_a =
      scales_for_library(launch, args.input(kScalesA), attrs.by, attrs.transpose_a);
  const Tensor scales_b =
      scales_for_library(launch, args.input(kScalesB), attrs.by, !attrs.transpose_b);
  const Tensor sums = p.result == output.dtype() ? output : f32_like(output);
  run_plan(launch.context(), plan,
           {.a = a.address(),
            .b = b.address(),
            .bias = p.has_bias ? args.input(kBias).address() : nullptr,
            .out = sums.address(),
            .scales_a = scales_a.address(),
            .scales_b = scales_b.address()});
  if (args.has(kBias) && !p.has_bias) {
    add_bias(launch, sums, dense(args.input(kBias), Format::kContiguous), output);
  }
  output.bump_version();
}

// A row of codes as bf16, times the powers of two of its blocks. Such a product moves the exponent
// alone, so it is exact but beyond bf16's range.
template <int N, class Code>
struct WidenRow {
  const Code* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  bool along_columns = false;
  BFloat16* out = nullptr;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t blocks = (rows.size + kBlock - 1) / kBlock;
    const std::uint8_t* const own =
        scales + (along_columns ? row / kBlock * rows.size : row * blocks);
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(codes + row * rows.size + j, values);
      // A pack lies within one block of a row.
      const float of_row = along_columns ? 1 : block_scale(own[j / kBlock]);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        values[k] = __fmul_rn(values[k], along_columns ? block_scale(own[j + k]) : of_row);
      }
      store(values, out + row * rows.size + j);
    });
  }
};

template <class Code>
void widen_blocks(const Launch& launch, const WidenRow<1, Code>& call, const Rows& rows) {
  visit_packs<BFloat16, 8>(rows.size, {call.codes, call.out}, [&]<int N>() {
    for_dense_rows(launch, WidenRow<N, Code>{call.codes, call.scales, call.along_columns, call.out},
                   rows);
  });
}

Tensor widened(const Launch& launch, const Tensor& codes, const Tensor& scales, ScaleBy by,
               bool along_columns) {
  const Tensor from = dense(codes, Format::kContiguous);
  const Tensor result = empty(codes.shape(), DType::kBf16, Format::kContiguous, codes.device());
  if (by != ScaleBy::kBlock) {
    copy_tensor(from, result);
    return result;
  }
  const Tensor powers = dense(scales, Format::kContiguous);
  const Rows rows{codes.size(0), codes.size(1), 1};
  const auto widen_as = [&]<class Code>(const Code* first) {
    widen_blocks(
        launch,
        WidenRow<1, Code>{first, in<std::uint8_t>(powers), along_columns, out<BFloat16>(result)},
        rows);
  };
  if (codes.dtype() == DType::kE4m3) {
    widen_as(in<Float8E4M3>(from));
  } else {
    widen_as(in<Float8E5M2>(from));
  }
  return result;
}

// out = sums * (a * b) + bias for a row. a and b are one scale each, or with `by_line` one for each
// row and column; null: 1.
template <int N, class Out>
struct ScaleRow {
  const float* sums = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
  bool by_line = false;
  const float* bias = nullptr;  // for each column; null: none
  Out* out = nullptr;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const float own = a == nullptr ? 1 : a[by_line ? row : 0];
    const float other = b == nullptr || by_line ? 1 : b[0];
    const float* const of_columns = by_line ? b : nullptr;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      float factors[N];
      float added[N];
      load(sums + row * rows.size + j, values);
      load_or(of_columns, j, other, factors);
      load_or(bias, j, 0, added);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = values[k] * (own * factors[k]) + added[k];
      store(values, out + row * rows.size + j);
    });
  }
};

void scale_sums(const KernelArgs& args, const Launch& launch, const Tensor& sums) {
  const ScaleBy by = args.attrs<ScaledMatmulAttrs>().by;
  const Tensor& output = args.output();
  const bool is_scaled = by != ScaleBy::kBlock;
  const Tensor a = is_scaled ? dense_f32(args.input(kScalesA)) : Tensor();
  const Tensor b = is_scaled ? dense_f32(args.input(kScalesB)) : Tensor();
  const Tensor bias = args.has(kBias) ? dense_f32(args.input(kBias)) : Tensor();
  const Rows rows{output.size(0), output.size(1), 1};
  visit_vector_dtype(output.dtype(), [&]<class Out>() {
    visit_packs<float>(rows.size,
                       {sums.address(), b.defined() ? b.address() : nullptr,
                        bias.defined() ? bias.address() : nullptr, output.address()},
                       [&]<int N>() {
                         for_dense_rows(launch,
                                        ScaleRow<N, Out>{in<float>(sums), in_or_null<float>(a),
                                                         in_or_null<float>(b), by == ScaleBy::kLine,
                                                         in_or_null<float>(bias), out<Out>(output)},
                                        rows);
                       });
  });
}

void run_widened(const KernelArgs& args) {
  const auto& attrs = args.attrs<ScaledMatmulAttrs>();
  const Launch launch(args.output());
  const Tensor a =
      widened(launch, args.input(kA), args.input(kScalesA), attrs.by, attrs.transpose_a);
  const Tensor b =
      widened(launch, args.input(kB), args.input(kScalesB), attrs.by, !attrs.transpose_b);
  // Sums in 16 bits would be rounded before their scales are applied, and could leave f16's range.
  Tensor sums = f32_like(args.output());
  const Tensor* operands[] = {&a, &b};
  run_kernel(ops::matmul, operands, {&sums, 1},
             MatmulAttrs{attrs.transpose_a, attrs.transpose_b, true});
  scale_sums(args, launch, sums);
}

}  // namespace

extern const KernelList scaled_matmul{
    {{{"cuda_cublaslt_fp8", has_plan, run_cublaslt}, {"cuda_widened", nullptr, run_widened}}}};

}  // namespace mezzo::kernels::cuda
