// Batch normalization: one pass for the statistics, one to apply them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/batch_norm.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/channel_statistics-inl.h"
#include "mezzo/kernels/cpu/norm_sums.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/norm_statistics.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using In = BatchNormInput;

// Those of x, or what the kernel that made x has found already.
template <class T>
void find_statistics(const T* x, const ChannelRows& rows, const KernelArgs& args) {
  if (const NormStatistics* const given = given_statistics()) {
    copy_elements(given->mean, args.output(1));
    copy_elements(given->var, args.output(2));
    return;
  }
  const RowArrays arrays(rows, rows.parts * kPartArrays);
  channel_statistics(x, rows, arrays, args.output(1).mutable_data<float>(),
                     args.output(2).mutable_data<float>());
}

enum class Tail { kNone, kRelu, kAddRelu };

// What pass 2 reads besides x, as whole rows.
struct Affine {
  const float* mean;
  const float* scale;
  const float* bias;
};

template <Tail kTail, class T>
void apply(const T* x, const T* residual, T* y, const ChannelRows& rows, const Affine& affine) {
  const std::int64_t width = rows.width();
  parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) HWY_ATTR {
    const std::int64_t begin = rows.first_row(static_cast<int>(first));
    const std::int64_t end = rows.first_row(static_cast<int>(last));
    for_rows_backwards(rows, begin, end, [&](std::int64_t row) HWY_ATTR {
      for_row(rows.count(row), [&](std::int64_t c, auto part) HWY_ATTR {
        const std::int64_t i = row * width + c;
        auto v = normalize(load(x + i, part), load(affine.mean + c), load(affine.scale + c),
                           load(affine.bias + c));
        if constexpr (kTail == Tail::kAddRelu) v = hn::Add(v, load(residual + i, part));
        if constexpr (kTail != Tail::kNone) v = positive_part(v);
        store(v, y + i, part);
      });
    });
  });
}

template <class T>
void batch_norm_typed(const KernelArgs& args) {
  const auto& attrs = args.attrs<BatchNormAttrs>();
  const Tensor& out = args.output();
  const Format format = out.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const Tensor x = kernels::dense(args.input(In::kX), format);
  const ChannelRows rows(x.shape(), lanes(), kElementGrain);
  const T* in = x.data<T>();
  if (attrs.training) find_statistics(in, rows, args);
  enum : std::int64_t { kMean, kVar, kWeight, kBias, kRstd, kScale, kArrays };
  const RowArrays arrays(rows, kArrays);
  load_channels(rows, attrs.training ? args.output(1) : args.input(In::kRunningMean), 0,
                arrays[kMean]);
  load_channels(rows, attrs.training ? args.output(2) : args.input(In::kRunningVar), 1,
                arrays[kVar]);
  load_channels(rows, args.input(In::kWeight), 1, arrays[kWeight]);
  load_channels(rows, args.input(In::kBias), 0, arrays[kBias]);
  compute_scale(rows.width(), static_cast<float>(attrs.eps), arrays[kWeight], arrays[kVar],
                arrays[kRstd], arrays[kScale]);
  const Affine affine{arrays[kMean], arrays[kScale], arrays[kBias]};
  T* y = out.mutable_data<T>();
  if (args.has(In::kResidual)) {
    const Tensor residual = kernels::dense(args.input(In::kResidual), format);
    apply<Tail::kAddRelu>(in, residual.data<T>(), y, rows, affine);
  } else if (attrs.relu) {
    apply<Tail::kRelu, T>(in, nullptr, y, rows, affine);
  } else {
    apply<Tail::kNone, T>(in, nullptr, y, rows, affine);
  }
}

void batch_norm(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(In::kX).dtype(),
                              [&]<class T>() { batch_norm_typed<T>(args); });
}

// For NormSums.
void begin_part(const BFloat16* x, const ChannelRows& rows, float* arrays, int part,
                std::int64_t end) {
  part_statistics(x, rows, RowArrays(rows, arrays), part, end);
}
void combine_parts(const ChannelRows& rows, float* arrays, float* mean, float* var) {
  combine_statistics(rows, RowArrays(rows, arrays), mean, var);
}
std::int64_t row_lanes() { return lanes(); }

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels {
namespace {

HWY_EXPORT(batch_norm);
HWY_EXPORT(head_of);
HWY_EXPORT(begin_part);
HWY_EXPORT(combine_parts);
HWY_EXPORT(row_lanes);

void run(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(batch_norm)(args); }

}  // namespace

NormSums::NormSums(const Shape& shape)
    : rows_(shape, HWY_DYNAMIC_DISPATCH(row_lanes)(), kElementGrain),
      arrays_(empty({rows_.parts * NormPart::kCount, row_array_length(rows_)}, DType::kF32)),
      data_(arrays_.mutable_data<float>()) {}

std::int64_t NormSums::rows_at_first(int part) const {
  const std::int64_t head = HWY_DYNAMIC_DISPATCH(head_of)(rows_, part);
  const std::int64_t chunks = (head + kChunkRows - 1) / kChunkRows;
  return std::min(chunks * kChunkRows, rows_.first_row(part + 1) - rows_.first_row(part));
}

NormPart NormSums::begin(int part, const BFloat16* rows) const {
  HWY_DYNAMIC_DISPATCH(begin_part)
  (rows, rows_, data_, part, rows_.first_row(part) + rows_at_first(part));
  const std::int64_t length = row_array_length(rows_);
  return {data_ + part * NormPart::kCount * length, length};
}

void NormSums::combine(float* mean, float* var) const {
  HWY_DYNAMIC_DISPATCH(combine_parts)(rows_, data_, mean, var);
}

namespace cpu {

extern const KernelList batch_norm{{{{"cpu_channels", vector_dtypes_only, run}}}};
extern const KernelList batch_norm_add_relu{{{{"cpu_channels", vector_dtypes_only, run}}}};

}  // namespace cpu
}  // namespace mezzo::kernels
#endif
