#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/as_gemm/conv2d_col2im.cpp"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_col2im.h"

#include <algorithm>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/conv/as_gemm/col2im.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/slice_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::conv::Windows;

HWY_INLINE void add_piece(const float* from, float* to, std::int64_t count) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) store(hn::Add(load(to + i), load(from + i)), to + i);
  if constexpr (kMaxLanes > 1) {
    if (i == count) return;
    const auto sum = hn::Add(load_part(to + i, count - i), load_part(from + i, count - i));
    store_part(sum, to + i, count - i);
  }
}

// Adds one row of every window in a row of windows to a row of the image. Overlapping windows are
// not added in succession: a vector would wait for the stores of the one before.
void add_row(const Windows& w, const float* from, float* row) {
  const std::int64_t apart = ceil_div(w.kernel.w, w.stride.w);
  const std::int64_t window = w.kernel.h * w.piece();
  for (std::int64_t first = 0; first < apart; ++first) {
    for (std::int64_t i = first; i < w.count.w; i += apart) {
      add_piece(from + i * window, row + i * w.stride.w * w.channels, w.piece());
    }
  }
}

template <class T>
void round_row(const float* from, T* to, std::int64_t count) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) store(load(from + i), to + i);
  if constexpr (kMaxLanes > 1) {
    if (i < count) store_part(load_part(from + i, count - i), to + i, count - i);
  }
}

// Sums rows [begin, end), counted over all images.
template <class T>
void sum_rows(const Windows& w, T* out, std::int64_t begin, std::int64_t end) {
  std::vector<float> row(static_cast<std::size_t>(w.row_pixels() * w.channels));
  const std::int64_t row_of_windows = w.count.w * w.kernel.h * w.piece();
  for (std::int64_t r = begin; r < end; ++r) {
    std::ranges::fill(row, 0.0F);
    const std::int64_t image = r / w.image.h;
    const std::int64_t h = r % w.image.h + w.padding.top;
    const std::int64_t first = std::max<std::int64_t>(0, (h - w.kernel.h) / w.stride.h);
    for (std::int64_t i = first; i < w.count.h && i * w.stride.h <= h; ++i) {
      const std::int64_t k = h - i * w.stride.h;
      if (k >= w.kernel.h) continue;
      add_row(w, w.numbers + (image * w.count.h + i) * row_of_windows + k * w.piece(), row.data());
    }
    round_row(row.data() + w.padding.left * w.channels, out + r * w.image.w * w.channels,
              w.image.w * w.channels);
  }
}

void sum_windows(const Windows& w, const Tensor& out) {
  constexpr std::int64_t kGrainNumbers = 1 << 14;
  const std::int64_t row = w.count.w * w.kernel.h * w.piece();
  kernels::visit_vector_dtype(out.dtype(), [&]<class T>() {
    parallel_for(out.size(0) * w.image.h, kGrainNumbers / row + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   sum_rows(w, out.mutable_data<T>(), begin, end);
                 });
  });
}

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::conv {
namespace {

HWY_EXPORT(sum_windows);

// x as a dense row-major matrix over the same memory; x is dense and channels-last.
Tensor as_matrix(const Tensor& x, std::int64_t rows) {
  const std::int64_t columns = x.numel() / rows;
  return alias(x, {rows, columns}, {columns, 1}, x.offset());
}

// The number of images whose windows stay in the caches.
std::int64_t images_at_once(const Problem& p) {
  constexpr std::int64_t kMostNumbers = 1 << 19;
  const std::int64_t window = p.weight[1] * p.weight[2] * p.weight[3];
  const std::int64_t each = window * p.y[2] * p.y[3];
  return std::clamp<std::int64_t>(kMostNumbers / each, 1, p.y[0]);
}

}  // namespace

void run_col2im_grad_input(const KernelArgs& args) {
  const Problem p = gradient_problem(args, Pass::kGradInput);
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Tensor weight = as_matrix(dense(args.input(1), Format::kChannelsLast), p.weight[0]);
  const std::int64_t pixels = p.y[2] * p.y[3];
  const std::int64_t at_once = images_at_once(p);
  const Tensor room = scratch({at_once * pixels, weight.size(1)}, DType::kF32);
  const Windows windows{.numbers = room.data<float>(),
                        .channels = p.weight[1],
                        .count = {p.y[2], p.y[3]},
                        .kernel = {p.weight[2], p.weight[3]},
                        .stride = p.attrs.stride,
                        .image = {p.x[2], p.x[3]},
                        .padding = p.attrs.padding};
  const Tensor none;
  for (std::int64_t first = 0; first < p.y[0]; first += at_once) {
    const SliceAttrs part{0, first, std::min(at_once, p.y[0] - first), 1};
    const Tensor rows = as_matrix(slice_of(grad, part), part.count * pixels);
    Tensor products = slice_of(room, {0, 0, part.count * pixels, 1});
    const Tensor* const inputs[] = {&rows, &weight, &none};
    run_kernel(ops::matmul, inputs, {&products, 1}, MatmulAttrs{.f32_result = is_lower(p.dtype)});
    HWY_DYNAMIC_DISPATCH(sum_windows)(windows, slice_of(args.output(), part));
  }
}

}  // namespace mezzo::kernels::conv
#endif
