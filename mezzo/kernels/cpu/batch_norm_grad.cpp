// The gradient of batch normalization: one pass for the sums per channel, one for grad_x.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/batch_norm_grad.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/norm/batch_norm-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/norm_together.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using GradIn = BatchNormGradInput;

// Where the gradient is masked: nowhere, or where the forward pass's result y is 0. y is recomputed
// from x, or from x and the residual, or read. If y is NaN, the gradient passes, as in relu_grad.
enum class Mask { kNone, kFromX, kFromResidual, kFromY };

// With a residual, the masked gradient is a result, too.
constexpr bool has_residual(Mask mask) {
  return mask == Mask::kFromResidual || mask == Mask::kFromY;
}

// Per-channel values as whole rows. grad_x = scale * grad + (x - mean) * slope + constant.
struct GradArrays {
  const float* mean;
  const float* rstd;
  const float* scale;
  const float* bias;
  float* slope;
  float* constant;
};

template <class T>
struct GradTensors {
  const T* x;
  const T* grad;
  T* grad_x;
  const T* signs = nullptr;    // y or the residual
  T* grad_residual = nullptr;  // the gradient after the mask, read again by pass 2
  const T* other = nullptr;    // a second gradient, which is added to the first
};

template <class T>
HWY_INLINE F32Vec normalized(const GradTensors<T>& t, const GradArrays& a, std::int64_t i,
                             std::int64_t c, auto part) {
  return normalize(load(t.x + i, part), load(a.mean + c), load(a.scale + c), load(a.bias + c));
}

template <class T>
HWY_INLINE F32Vec masked_by_x(const GradTensors<T>& t, const GradArrays& a, std::int64_t i,
                              std::int64_t c, auto part) {
  const auto y = normalized(t, a, i, c, part);
  return hn::IfThenZeroElse(hn::Le(y, hn::Zero(F32())), load(t.grad + i, part));
}

// The masked gradient. With a residual, it is stored for pass 2 and as the residual's gradient.
template <Mask kMask, bool kJoined, class T>
HWY_INLINE F32Vec masked(const GradTensors<T>& t, const GradArrays& a, std::int64_t i,
                         std::int64_t c, auto part) {
  if constexpr (kMask == Mask::kFromX) return masked_by_x(t, a, i, c, part);
  auto grad = load(t.grad + i, part);
  if constexpr (!has_residual(kMask)) return grad;
  if constexpr (kJoined) grad = hn::Add(grad, load(t.other + i, part));
  auto y = load(t.signs + i, part);
  // Rounded like y itself: a small value may have become 0.
  if constexpr (kMask == Mask::kFromResidual) {
    y = as_stored<T>(hn::Add(normalized(t, a, i, c, part), y));
  }
  grad = hn::IfThenZeroElse(hn::Le(y, hn::Zero(F32())), grad);
  store(grad, t.grad_residual + i, part);
  // Rounded to T, like the sum of a separate call.
  return kJoined ? load(t.grad_residual + i, part) : grad;
}

// Prefetches what lies `elements` after element i in all arrays.
template <Mask kMask, bool kJoined, class T>
HWY_INLINE void prefetch_pass_1(const GradTensors<T>& t, std::int64_t i, std::int64_t elements) {
  const std::int64_t ahead = elements * static_cast<std::int64_t>(sizeof(T));
  prefetch(t.x + i, ahead);
  prefetch(t.grad + i, ahead);
  if constexpr (has_residual(kMask)) prefetch(t.signs + i, ahead);
  if constexpr (has_residual(kMask)) prefetch(t.grad_residual + i, ahead);
  if constexpr (kJoined) prefetch(t.other + i, ahead);
}

// Sums the masked gradient, and its product with x - mean, over one part of the rows.
template <Mask kMask, bool kJoined, class T>
void sum_part(const GradTensors<T>& t, const GradArrays& a, const ChannelRows& rows, int number,
              const ChannelSums& sums) {
  const std::int64_t width = rows.width();
  const auto add = [&](std::int64_t row, std::int64_t group, std::int64_t count) HWY_ATTR {
    for_row(count, [&](std::int64_t c, auto part) HWY_ATTR {
      const auto mean = load(a.mean + c);
      auto sum = load(sums.chunk_first + c);
      auto products = load(sums.chunk_second + c);
      for (std::int64_t r = 0; r < group; ++r) {
        const std::int64_t i = (row + r) * width + c;
        prefetch_pass_1<kMask, kJoined>(t, i, group * width);
        const auto grad = masked<kMask, kJoined>(t, a, i, c, part);
        // Lanes beyond the end hold a gradient of 0 already.
        sum = hn::Add(sum, grad);
        products = hn::MulAdd(grad, hn::Sub(load(t.x + i, part), mean), products);
      }
      store(sum, sums.chunk_first + c);
      store(products, sums.chunk_second + c);
    });
  };
  // With a residual, up to five arrays are read. Eight rows of each, some kilobytes apart, would
  // evict each other from the first-level cache. That costs a third of the time if rows have 1024
  // channels.
  constexpr std::int64_t kGroup = has_residual(kMask) ? 1 : kGroupRows;
  sum_rows<kGroup>(rows, rows.first_row(number), rows.first_row(number + 1), sums, add);
}

// t.grad is the masked gradient, unless the mask is recomputed.
template <bool kRecomputed, class T>
void write_grad_x(const GradTensors<T>& t, const GradArrays& a, const ChannelRows& rows) {
  const std::int64_t width = rows.width();
  parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) HWY_ATTR {
    const std::int64_t begin = rows.first_row(static_cast<int>(first));
    const std::int64_t end = rows.first_row(static_cast<int>(last));
    for_rows_backwards(rows, begin, end, [&](std::int64_t row) HWY_ATTR {
      for_row(rows.count(row), [&](std::int64_t c, auto part) HWY_ATTR {
        const std::int64_t i = row * width + c;
        prefetch(t.x + i, kReadAhead);
        prefetch(t.grad + i, kReadAhead);
        prefetch(t.grad_x + i, kWriteAhead);
        const auto grad = kRecomputed ? masked_by_x(t, a, i, c, part) : load(t.grad + i, part);
        const auto centered = hn::Sub(load(t.x + i, part), load(a.mean + c));
        const auto rest = hn::MulAdd(centered, load(a.slope + c), load(a.constant + c));
        store(hn::MulAdd(grad, load(a.scale + c), rest), t.grad_x + i, part);
      });
    });
  });
}

enum SumArray : std::int64_t { kSum, kProducts, kChunkSum, kChunkProducts, kSumArrays };

// Adds up the parts in order: grad_bias is the sum of the gradients, grad_weight that of their
// products with (x - mean) * rstd.
void combine_sums(const ChannelRows& rows, const RowArrays& sums, const float* rstd,
                  float* grad_weight, float* grad_bias) {
  for_row(rows.channels, [&](std::int64_t c, auto some) HWY_ATTR {
    auto sum = hn::Zero(F32());
    auto products = hn::Zero(F32());
    for (int part = 0; part < rows.parts; ++part) {
      sum = hn::Add(sum, load(sums[part * kSumArrays + kSum] + c));
      products = hn::Add(products, load(sums[part * kSumArrays + kProducts] + c));
    }
    store(sum, grad_bias + c, some);
    store(hn::Mul(products, load(rstd + c)), grad_weight + c, some);
  });
}

// The contribution of the statistics' own gradients to grad_x. Per channel,
//   grad_x = scale * (grad - (grad_bias + (x - mean) * rstd * grad_weight) / n),
// where n and both gradients are those of all processes that share the statistics. n is the
// process's own count times the number of processes, hence share_means().
void compute_slope(const ChannelRows& rows, const KernelArgs& args, const GradArrays& a) {
  const auto channels = static_cast<std::size_t>(rows.channels);
  std::copy_n(args.output(1).data<float>(), channels, a.slope);
  std::copy_n(args.output(2).data<float>(), channels, a.constant);
  share_means(args.attrs<BatchNormAttrs>().processes, std::span(a.slope, channels),
              std::span(a.constant, channels));
  spread(rows, a.slope);
  spread(rows, a.constant);
  const auto share = hn::Set(F32(), -1 / static_cast<float>(rows.pixels));
  for_row(rows.width(), [&](std::int64_t c, auto part) HWY_ATTR {
    const auto factor = hn::Mul(load(a.scale + c, part), share);
    const auto slope = hn::Mul(load(a.slope + c, part), load(a.rstd + c, part));
    store(hn::Mul(factor, slope), a.slope + c, part);
    store(hn::Mul(factor, load(a.constant + c, part)), a.constant + c, part);
  });
}

// The passes over x, for one dtype and mask.
using SumPart = FunctionRef<void(const GradArrays& a, int part, const ChannelSums& sums)>;
using WriteGradX = FunctionRef<void(const GradArrays& a)>;

void run_grad(const KernelArgs& args, const ChannelRows& rows, SumPart sum, WriteGradX write) {
  const auto& attrs = args.attrs<BatchNormAttrs>();
  enum : std::int64_t { kMean, kVar, kWeight, kBias, kRstd, kScale, kSlope, kConstant, kArrays };
  const RowArrays a(rows, kArrays);
  load_channels(rows, args.input(GradIn::kMean), 0, a[kMean]);
  load_channels(rows, args.input(GradIn::kVar), 1, a[kVar]);
  load_channels(rows, args.input(GradIn::kWeight), 1, a[kWeight]);
  load_channels(rows, args.input(GradIn::kBias), 0, a[kBias]);
  compute_scale(rows.width(), static_cast<float>(attrs.eps), a[kWeight], a[kVar], a[kRstd],
                a[kScale]);
  const GradArrays arrays{a[kMean], a[kRstd], a[kScale], a[kBias], a[kSlope], a[kConstant]};

  const RowArrays sums(rows, rows.parts * kSumArrays);
  parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      const std::int64_t s = part * kSumArrays;
      for (std::int64_t i = 0; i < kSumArrays; ++i) sums.clear(s + i);
      sum(arrays, static_cast<int>(part),
          {sums[s + kSum], sums[s + kProducts], sums[s + kChunkSum], sums[s + kChunkProducts]});
    }
  });
  combine_sums(rows, sums, a[kRstd], args.output(1).mutable_data<float>(),
               args.output(2).mutable_data<float>());
  if (attrs.training) {
    compute_slope(rows, args, arrays);
  } else {  // given statistics do not depend on x
    a.clear(kSlope);
    a.clear(kConstant);
  }
  write(arrays);
}

template <Mask kMask, bool kJoined, class T>
void run_masked(const GradTensors<T>& t, const KernelArgs& args, const ChannelRows& rows) {
  GradTensors<T> second = t;
  if (has_residual(kMask)) second.grad = t.grad_residual;
  run_grad(
      args, rows,
      [&](const GradArrays& a, int part, const ChannelSums& sums) {
        sum_part<kMask, kJoined>(t, a, rows, part, sums);
      },
      [&](const GradArrays& a) { write_grad_x<kMask == Mask::kFromX>(second, a, rows); });
}

template <Mask kMask, class T>
void run_residual(GradTensors<T> t, const KernelArgs& args, const ChannelRows& rows,
                  Format format) {
  const Tensor signs =
      kernels::dense(args.input(kMask == Mask::kFromY ? GradIn::kY : GradIn::kResidual), format);
  t.signs = signs.data<T>();
  t.grad_residual = args.output(3).mutable_data<T>();
  if (!args.has(GradIn::kOtherGrad)) return run_masked<kMask, false>(t, args, rows);
  const Tensor other = kernels::dense(args.input(GradIn::kOtherGrad), format);
  t.other = other.data<T>();
  run_masked<kMask, true>(t, args, rows);
}

template <class T>
void batch_norm_grad_typed(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Format format = out.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const Tensor x = kernels::dense(args.input(GradIn::kX), format);
  const Tensor grad = kernels::dense(args.input(GradIn::kGrad), format);
  const ChannelRows rows(x.shape(), lanes(), kElementGrain);
  const GradTensors<T> t{x.data<T>(), grad.data<T>(), out.mutable_data<T>()};
  if (args.has(GradIn::kY)) return run_residual<Mask::kFromY>(t, args, rows, format);
  if (args.has(GradIn::kResidual)) return run_residual<Mask::kFromResidual>(t, args, rows, format);
  if (args.attrs<BatchNormAttrs>().relu) return run_masked<Mask::kFromX, false>(t, args, rows);
  run_masked<Mask::kNone, false>(t, args, rows);
}

void batch_norm_grad(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(GradIn::kX).dtype(),
                              [&]<class T>() { batch_norm_grad_typed<T>(args); });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(batch_norm_grad);

}  // namespace

extern const KernelList batch_norm_grad{
    {{{"cpu_channels", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(batch_norm_grad)(args);
       }}}}};

}  // namespace mezzo::kernels::cpu
#endif
