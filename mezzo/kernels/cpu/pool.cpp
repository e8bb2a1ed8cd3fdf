// Pooling in channels-last memory: vectors run over channels, threads over rows of pixels.
//
// Gradients of overlapping windows are gathered, not scattered: every pixel collects from the
// windows over it. So threads never write to the same place, and nothing needs to be zeroed first.
// A pixel's sum stays f32 and is rounded once, even where 16-bit windows overlap.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/pool.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/pool/max_pool-inl.h"
#include "mezzo/kernels/cpu/pool/max_pool_grad-inl.h"
#include "mezzo/kernels/cpu/pool/max_pool_narrow-inl.h"
#include "mezzo/kernels/cpu/pool/pool-inl.h"
#include "mezzo/kernels/cpu/pool/pool_gather-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/fusion/pending_norm.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

template <class T, class P>
void pick_chosen(const Pool& all, const T* x, const P* positions, T* out) {
  const std::int64_t width = all.attrs.kernel.w;
  all.for_each_window_row([&](const Pool& pool, const GridRow& at) {
    for (std::int64_t column = 0; column < pool.columns.out; ++column) {
      const std::int64_t window = pool.window(at.image, at.row, column);
      for (std::int64_t channel = 0; channel < pool.c; ++channel) {
        const auto position = static_cast<std::int64_t>(positions[window + channel]);
        const std::int64_t h = pool.rows.start(at.row) + position / width;
        const std::int64_t w = pool.columns.start(column) + position % width;
        const bool inside = h >= 0 && h < pool.rows.in && w >= 0 && w < pool.columns.in;
        out[window + channel] = inside ? x[pool.pixel(at.image, h, w) + channel] : T(0);
      }
    }
  });
}

// The sum of `pixels`, the first of which is at `p`. Each row is summed first, then the rows: a
// single sum over a large image would lose the last digits of every pixel.
template <bool kCut, class T>
HWY_INLINE F32Vec sum_of(const Pool& pool, const Rect& pixels, const T* p, const T* end) {
  auto total = hn::Zero(F32());
  const std::int64_t row_step = pool.columns.in * pool.c;
  for (std::int64_t h = pixels.top; h < pixels.bottom; ++h, p += row_step) {
    const T* pixel = p;
    auto row = hn::Zero(F32());
    for (std::int64_t w = pixels.left; w < pixels.right; ++w, pixel += pool.c) {
      row = hn::Add(row, load_row<kCut>(end, pixel));
    }
    total = hn::Add(total, row);
  }
  return total;
}

template <class T>
void mean_windows(const Pool& all, const T* x, T* out) {
  const T* const x_end = x + all.pixel_elements();
  all.for_each_window_row([&](const Pool& pool, const GridRow& at) HWY_ATTR {
    T* to = out + pool.window(at.image, at.row, 0);
    for (std::int64_t column = 0; column < pool.columns.out; ++column, to += pool.c) {
      const auto divisor = hn::Set(F32(), pool.divisor(at.row, column));
      const Rect pixels = pool.pixels_of(at.row, column);
      const T* const from = x + pool.pixel(at.image, pixels.top, pixels.left);
      const T* const last = x + pool.last_pixel(at.image, pixels);
      for (std::int64_t channel = 0; channel < pool.c; channel += lanes()) {
        const bool cut = x_end - last < channel + lanes();
        const auto total = cut ? sum_of<true>(pool, pixels, from + channel, x_end)
                               : sum_of<false>(pool, pixels, from + channel, x_end);
        store_before(out + at.end, hn::Div(total, divisor), to + channel);
      }
    }
  });
}

template <class T>
void gather_shares(const Pool& all, const T* grad, T* x) {
  const T* const grad_end = grad + all.window_elements();
  const auto divisor_of = [](const Pool& pool, const WindowOver& over) {
    return pool.divisor(over.row, over.column);
  };
  gather(all, x, divisor_of, [&]<bool kCut>(std::int64_t element, float divisor) HWY_ATTR {
    return hn::Div(load_row<kCut>(grad_end, grad + element), hn::Set(F32(), divisor));
  });
}

// Calls function.operator()<P>() with the type of positions.
template <class Function>
void visit_positions(const Tensor& positions, Function&& function) {
  if (positions.dtype() == DType::kU8) {
    function.template operator()<std::uint8_t>();
  } else {
    function.template operator()<std::int32_t>();
  }
}

Tensor channels_last(const Tensor& tensor) { return kernels::dense(tensor, Format::kChannelsLast); }

// Converts positions of other integer types, which users may pass, to i32.
Tensor small_positions(const Tensor& positions) {
  if (positions.dtype() == DType::kU8 || positions.dtype() == DType::kI32) {
    return channels_last(positions);
  }
  const Tensor small = empty(positions.shape(), DType::kI32, Format::kChannelsLast);
  convert_into(positions, small);
  return small;
}

// make_rows.operator()<T>() returns the source of x's rows.
template <class MakeRows>
void max_pool2d_of(const KernelArgs& args, const Pool& pool, const MakeRows& make_rows) {
  const Tensor& out = args.output();
  const Tensor& positions = args.output(1);
  kernels::visit_vector_dtype(out.dtype(), [&]<class T>() {
    visit_positions(positions, [&]<class P>() {
      max_windows(
          pool, [&] { return make_rows.template operator()<T>(); }, out.mutable_data<T>(),
          positions.mutable_data<P>());
    });
  });
}

void max_pool2d(const KernelArgs& args) {
  const Pool pool(args.attrs<Pool2dAttrs>(), args.input(0).shape(), args.output().shape());
  const PendingNorm* const norm = pending_norm_of(args.input(0));
  if (norm != nullptr && !norm->residual.defined()) {
    const kernels::NormArrays arrays(*norm);
    const Tensor x = channels_last(norm->x);
    const auto rows = [&]<class T>() { return NormalizedRows<T>(pool, x, arrays.lines()); };
    return max_pool2d_of(args, pool, rows);
  }
  const Tensor x = channels_last(args.input(0));
  max_pool2d_of(args, pool, [&]<class T>() { return StoredRows<T>(pool, x); });
}

void max_pool2d_grad(const KernelArgs& args) {
  const Tensor grad = channels_last(args.input(0));
  const Tensor positions = small_positions(args.input(1));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), out.shape(), grad.shape());
  kernels::visit_vector_dtype(grad.dtype(), [&]<class T>() {
    visit_positions(positions, [&]<class P>() {
      if (pool.has_separate_windows() && pool.c > 0 && pool.c < lanes()) {
        spread_chosen_narrow(pool, grad.data<T>(), positions.data<P>(), out.mutable_data<T>());
      } else if (pool.has_separate_windows()) {
        spread_chosen(pool, grad.data<T>(), positions.data<P>(), out.mutable_data<T>());
      } else {
        gather_chosen(pool, grad.data<T>(), positions.data<P>(), out.mutable_data<T>());
      }
    });
  });
}

void max_pool2d_pick(const KernelArgs& args) {
  const Tensor x = channels_last(args.input(0));
  const Tensor positions = small_positions(args.input(1));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), x.shape(), out.shape());
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    visit_positions(positions, [&]<class P>() {
      pick_chosen(pool, x.data<T>(), positions.data<P>(), out.mutable_data<T>());
    });
  });
}

void avg_pool2d(const KernelArgs& args) {
  const Tensor x = channels_last(args.input(0));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), x.shape(), out.shape());
  kernels::visit_vector_dtype(
      x.dtype(), [&]<class T>() { mean_windows(pool, x.data<T>(), out.mutable_data<T>()); });
}

void avg_pool2d_grad(const KernelArgs& args) {
  const Tensor grad = channels_last(args.input(0));
  const Tensor& out = args.output();
  const Pool pool(args.attrs<Pool2dAttrs>(), out.shape(), grad.shape());
  kernels::visit_vector_dtype(
      grad.dtype(), [&]<class T>() { gather_shares(pool, grad.data<T>(), out.mutable_data<T>()); });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(max_pool2d);
HWY_EXPORT(max_pool2d_grad);
HWY_EXPORT(max_pool2d_pick);
HWY_EXPORT(avg_pool2d);
HWY_EXPORT(avg_pool2d_grad);

Support supports(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype())
             ? Support::yes()
             : Support::no("only f32, bf16 and f16 are vectorised");
}

bool normalises(const KernelArgs& /*args*/, std::size_t input, bool adds) {
  return input == 0 && !adds;
}

}  // namespace

extern const KernelList max_pool2d{{{{"cpu_simd", supports,
                                      [](const KernelArgs& args) {
                                        HWY_DYNAMIC_DISPATCH(max_pool2d)
                                        (args);
                                      },
                                      normalises}}}};
extern const KernelList max_pool2d_grad{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                             HWY_DYNAMIC_DISPATCH(max_pool2d_grad)(args);
                                           }}}}};
extern const KernelList max_pool2d_pick{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                             HWY_DYNAMIC_DISPATCH(max_pool2d_pick)(args);
                                           }}}}};
extern const KernelList avg_pool2d{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                        HWY_DYNAMIC_DISPATCH(avg_pool2d)(args);
                                      }}}}};
extern const KernelList avg_pool2d_grad{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                             HWY_DYNAMIC_DISPATCH(avg_pool2d_grad)(args);
                                           }}}}};

}  // namespace mezzo::kernels::cpu
#endif
