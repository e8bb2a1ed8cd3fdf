#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv_transpose2d.cpp"
#include "mezzo/kernels/conv_transpose2d.h"

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/conv/direct/conv2d_direct.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/norm/batch_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Elements are read before they are written: `out` may be `sums`.
template <class T>
void add_to_rows(const float* sums, const float* bias, T* out, const ChannelRows& rows) {
  const std::int64_t width = rows.width();
  parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) HWY_ATTR {
    const std::int64_t end = rows.first_row(static_cast<int>(last));
    for (std::int64_t row = rows.first_row(static_cast<int>(first)); row < end; ++row) {
      for_row(rows.count(row), [&](std::int64_t c, auto part) HWY_ATTR {
        const std::int64_t i = row * width + c;
        store(hn::Add(load(sums + i, part), load(bias + c)), out + i, part);
      });
    }
  });
}

void add_bias_to_sums(const Tensor& sums, const Tensor& bias, const Tensor& output) {
  const ChannelRows rows(output.shape(), lanes(), kElementGrain);
  const RowArrays row(rows, 1);
  load_channels(rows, kernels::dense_f32(bias), 0, row[0]);
  kernels::visit_vector_dtype(output.dtype(), [&]<class T>() {
    add_to_rows(sums.data<float>(), row[0], output.mutable_data<T>(), rows);
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(add_bias_to_sums);

void add_bias(const Tensor& sums, const Tensor& bias, const Tensor& output) {
  HWY_DYNAMIC_DISPATCH(add_bias_to_sums)(sums, bias, output);
}

// The number of samples whose sums stay in the caches until they are rounded; at least one.
std::int64_t samples_at_once(const Tensor& output) {
  constexpr std::int64_t kMostSums = 1 << 20;
  return std::max<std::int64_t>(1, kMostSums * output.size(0) / output.numel());
}

void run_transposed(const KernelArgs& args) {
  run_conv_transpose2d(args, add_bias, samples_at_once(args.output()));
}

}  // namespace

extern const KernelList conv_transpose2d{
    {{{conv::kDirect.name, conv::takes<conv::kDirect, conv::transposed_problem>,
       conv::run_direct_transposed},
      {"cpu_grad_input", vector_dtypes_only, run_transposed}}}};

}  // namespace mezzo::kernels::cpu
#endif
