// Batch normalization: one pass for the statistics, one to apply them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/batch_norm.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/norm/channel_statistics-inl.h"
#include "mezzo/kernels/cpu/norm/norm_sums.h"
#include "mezzo/kernels/cpu/norm/normalized-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/fusion/norm_statistics.h"
#include "mezzo/ops/fusion/pending_norm.h"
#include "mezzo/ops/norm_together.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using In = BatchNormInput;

// Finds the statistics of x, or takes those that the kernel that computed x has found; then
// combines them over all processes.
template <class T>
void find_statistics(const T* x, const ChannelRows& rows, const KernelArgs& args) {
  auto* const mean = args.output(1).mutable_data<float>();
  auto* const var = args.output(2).mutable_data<float>();
  if (const NormStatistics* const given = given_statistics()) {
    copy_elements(given->mean, args.output(1));
    copy_elements(given->var, args.output(2));
  } else {
    const RowArrays arrays(rows, rows.parts * kPartArrays);
    channel_statistics(x, rows, arrays, mean, var);
  }
  const auto channels = static_cast<std::size_t>(rows.channels);
  share_statistics(args.attrs<BatchNormAttrs>().processes, rows.pixels, std::span(mean, channels),
                   std::span(var, channels));
}

enum class Tail { kNone, kRelu, kAddRelu };

// The parameters of the normalisation as whole rows.
class Affine {
 public:
  Affine(const ChannelRows& rows, const PendingNorm& norm) : arrays_(rows, kArrays) {
    load_channels(rows, norm.mean, 0, arrays_[kMean]);
    load_channels(rows, norm.var, 1, arrays_[kVar]);
    load_channels(rows, norm.weight, 1, arrays_[kWeight]);
    load_channels(rows, norm.bias, 0, arrays_[kBias]);
    compute_scale(rows.width(), static_cast<float>(norm.attrs.eps), arrays_[kWeight], arrays_[kVar],
                  arrays_[kRstd], arrays_[kScale]);
  }

  kernels::NormLines lines(bool relu) const {
    return {arrays_[kMean], arrays_[kScale], arrays_[kBias], relu};
  }

 private:
  enum : std::int64_t { kMean, kVar, kWeight, kBias, kRstd, kScale, kArrays };
  RowArrays arrays_;
};

struct NoResidual {};

// `residual` reads the addend for an element of x and its channel.
template <Tail kTail, class T, class Residual>
void apply(const T* x, const Residual& residual, T* y, const ChannelRows& rows,
           const kernels::NormLines& norm) {
  const std::int64_t width = rows.width();
  parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) HWY_ATTR {
    const std::int64_t begin = rows.first_row(static_cast<int>(first));
    const std::int64_t end = rows.first_row(static_cast<int>(last));
    for_rows_backwards(rows, begin, end, [&](std::int64_t row) HWY_ATTR {
      for_row(rows.count(row), [&](std::int64_t c, auto part) HWY_ATTR {
        const std::int64_t i = row * width + c;
        prefetch(x + i, kReadAhead);
        prefetch(y + i, kWriteAhead);
        auto v = normalize(load(x + i, part), load(norm.mean + c), load(norm.scale + c),
                           load(norm.bias + c));
        if constexpr (kTail == Tail::kAddRelu) v = hn::Add(v, residual(i, c, part));
        if constexpr (kTail != Tail::kNone) v = positive_part(v);
        store(v, y + i, part);
      });
    });
  });
}

// The residual may be another pending norm.
template <class T>
void add_residual(const T* x, const Tensor& residual, T* y, const ChannelRows& rows,
                  const kernels::NormLines& norm) {
  const Format format = residual.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const PendingNorm* const pending = pending_norm_of(residual);
  if (pending != nullptr && !pending->residual.defined()) {
    const Tensor stored = kernels::dense(pending->x, format);
    const Affine affine(rows, *pending);
    const Normalized<false> read{affine.lines(pending->attrs.relu)};
    const T* const from = stored.data<T>();
    const auto normalized = [&](std::int64_t i, std::int64_t c, auto part) HWY_ATTR {
      return as_stored<T>(read.normalized(from + (i - c), c, part));
    };
    return apply<Tail::kAddRelu>(x, normalized, y, rows, norm);
  }
  const Tensor stored = kernels::dense(residual, format);
  const T* const from = stored.data<T>();
  const auto as_it_is = [&](std::int64_t i, std::int64_t /*c*/, auto part) HWY_ATTR {
    prefetch(from + i, kReadAhead);
    return load(from + i, part);
  };
  apply<Tail::kAddRelu>(x, as_it_is, y, rows, norm);
}

template <class T>
void batch_norm_typed(const KernelArgs& args) {
  const auto& attrs = args.attrs<BatchNormAttrs>();
  const Tensor& out = args.output();
  const Format format = out.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const Tensor x = kernels::dense(args.input(In::kX), format);
  const ChannelRows rows(x.shape(), lanes(), kElementGrain);
  const T* in = x.data<T>();
  const bool is_by_readers = pending_norm_of(out) != nullptr;
  if (attrs.training) find_statistics(in, rows, args);
  if (is_by_readers) return;
  const Affine affine(rows, {.weight = args.input(In::kWeight),
                             .bias = args.input(In::kBias),
                             .mean = attrs.training ? args.output(1) : args.input(In::kRunningMean),
                             .var = attrs.training ? args.output(2) : args.input(In::kRunningVar),
                             .attrs = attrs});
  const kernels::NormLines norm = affine.lines(attrs.relu);
  T* y = out.mutable_data<T>();
  if (args.has(In::kResidual)) {
    add_residual(in, args.input(In::kResidual), y, rows, norm);
  } else if (attrs.relu) {
    apply<Tail::kRelu>(in, NoResidual(), y, rows, norm);
  } else {
    apply<Tail::kNone>(in, NoResidual(), y, rows, norm);
  }
}

void batch_norm(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(In::kX).dtype(),
                              [&]<class T>() { batch_norm_typed<T>(args); });
}

// The steps of NormSums for this instruction set.
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

bool normalises_residual(const KernelArgs& /*args*/, std::size_t input, bool adds) {
  return input == BatchNormInput::kResidual && !adds;
}

}  // namespace

NormSums::NormSums(const Shape& shape)
    : rows_(shape, HWY_DYNAMIC_DISPATCH(row_lanes)(), kElementGrain),
      arrays_(empty({rows_.parts * NormPart::kCount, row_array_length(rows_)}, DType::kF32)),
      data_(arrays_.mutable_data<float>()) {}

std::int64_t NormSums::rows_at_first(int part) const {
  const std::int64_t head = HWY_DYNAMIC_DISPATCH(head_of)(rows_, part);
  const std::int64_t chunks = ceil_div(head, kChunkRows);
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
extern const KernelList batch_norm_add_relu{
    {{{"cpu_channels", vector_dtypes_only, run, normalises_residual}}}};

}  // namespace cpu
}  // namespace mezzo::kernels
#endif
