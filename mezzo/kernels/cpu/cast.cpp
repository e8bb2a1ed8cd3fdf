// Casts and copies between dtypes and memory layouts.
//
// Three ways, by what the layouts have in common: one flat pass where the orders agree; rows where
// both sides have neighbours along the same dimension; square tiles where one side's neighbours are
// the other side's columns (row-major to channels-last and back, transposed matrices), because a
// plain loop would touch a new cache line for every element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/cast.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/loop.h"
#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/kernels/cpu/transpose-inl.h"
#include "mezzo/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kNarrow = 8;  // rows of at most so many numbers are not worth a panel

// out[i] = in[i]; a plain copy where the types agree.
template <class In, class Out>
HWY_INLINE void convert_row(const In* in, Out* out, std::int64_t n) {
  if constexpr (std::is_same_v<In, Out>) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(In));
  } else {
    const std::int64_t step = lanes();
    std::int64_t i = 0;
    for (; i + step <= n; i += step) store(load(in + i), out + i);
    if (i < n) store_part(load_part(in + i, n - i), out + i, n - i);
  }
}

template <class In, class Out>
struct Copy {
  const In* in;
  Out* out;
  const kernels::Loop<2>& loop;  // operand 0 is the output, 1 the input

  // Neighbours on both sides.
  void rows() const {
    parallel_for(loop.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels::for_each_run(loop, begin, end, [&](const auto& at, std::int64_t count) {
        convert_row(in + at[1], out + at[0], count);
      });
    });
  }

  // Anything else: through small buffers.
  void strided() const {
    const std::int64_t step_out = loop.inner_stride(0);
    const std::int64_t step_in = loop.inner_stride(1);
    parallel_for(loop.numel(), kElementGrain / 4, [&](std::int64_t begin, std::int64_t end) {
      constexpr std::int64_t kBuffer = 256;
      In from[kBuffer];
      Out to[kBuffer];
      kernels::for_each_run(loop, begin, end, [&](const auto& at, std::int64_t count) {
        for (std::int64_t first = 0; first < count; first += kBuffer) {
          const std::int64_t n = std::min(kBuffer, count - first);
          for (std::int64_t i = 0; i < n; ++i) from[i] = in[at[1] + (first + i) * step_in];
          convert_row(from, to, n);
          for (std::int64_t i = 0; i < n; ++i) out[at[0] + (first + i) * step_out] = to[i];
        }
      });
    });
  }

  // The output's neighbours lie apart in the input, where those along dimension `axis` are next to
  // each other.
  void tiles(std::size_t axis) const {
    const std::size_t last = loop.rank() - 1;
    const std::int64_t width = loop.sizes[last];   // along the output's neighbours
    const std::int64_t height = loop.sizes[axis];  // along the input's neighbours
    const std::int64_t in_stride = loop.strides[1][last];
    const std::int64_t out_stride = loop.strides[0][axis];
    Shape outer = loop.sizes;
    outer[last] = (width + kPanel - 1) / kPanel;
    outer[axis] = (height + kTile - 1) / kTile;
    std::array<Strides, 2> strides = loop.strides;
    for (Strides& operand : strides) {
      operand[last] *= kPanel;
      operand[axis] *= kTile;
    }
    const std::int64_t grain = kElementGrain / (kTile * kPanel);
    parallel_for(outer.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) In panel[kTile * kPanel];
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t column = t % outer[last] * kPanel;
        const std::int64_t row = kernels::position_along(t, outer, axis) * kTile;
        const std::int64_t w = std::min(kPanel, width - column);
        const std::int64_t h = std::min(kTile, height - row);
        Out* to = out + kernels::offset_of(t, outer, strides[0]);
        transpose_panel(in + kernels::offset_of(t, outer, strides[1]), in_stride, w, h, panel);
        for (std::int64_t r = 0; r < h; ++r) {
          convert_row(panel + r * kPanel, to + r * out_stride, w);
        }
      }
    });
  }

  // The same for a few numbers per row, and rows of the output without gaps: images of three
  // channels.
  void narrow_tiles(std::size_t axis) const {
    const std::size_t last = loop.rank() - 1;
    const std::int64_t width = loop.sizes[last];
    const std::int64_t height = loop.sizes[axis];
    const std::int64_t in_stride = loop.strides[1][last];
    constexpr std::int64_t kRows = kTile * kPanel / kNarrow;
    Shape outer = loop.sizes;
    outer[last] = 1;
    outer[axis] = (height + kRows - 1) / kRows;
    std::array<Strides, 2> strides = loop.strides;
    for (Strides& operand : strides) operand[axis] *= kRows;
    parallel_for(outer.numel(), kElementGrain / kRows, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) In rows[kTile * kPanel];
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t row = kernels::position_along(t, outer, axis) * kRows;
        const std::int64_t h = std::min(kRows, height - row);
        const In* from = in + kernels::offset_of(t, outer, strides[1]);
        for (std::int64_t c = 0; c < width; ++c) {
          for (std::int64_t r = 0; r < h; ++r) rows[r * width + c] = from[c * in_stride + r];
        }
        convert_row(rows, out + kernels::offset_of(t, outer, strides[0]), h * width);
      }
    });
  }

  void run() const {
    if (loop.inner_stride(0) == 1 && loop.inner_stride(1) == 1) return rows();
    if (loop.inner_stride(0) == 1) {
      for (std::size_t axis = 0; axis + 1 < loop.rank(); ++axis) {
        if (loop.strides[1][axis] != 1 || loop.sizes[axis] < kNarrow) continue;
        if (loop.inner() > kNarrow) return tiles(axis);
        if (loop.strides[0][axis] == loop.inner()) return narrow_tiles(axis);
      }
    }
    strided();
  }
};

}  // namespace

// Both tensors are dense in the same order.
void cast_flat(const Tensor& in, const Tensor& out) {
  kernels::visit_vector_dtype(in.dtype(), [&]<class In>() {
    kernels::visit_vector_dtype(out.dtype(), [&]<class Out>() {
      map(in.data<In>(), out.mutable_data<Out>(), in.numel(), [](F32Vec v) HWY_ATTR { return v; });
    });
  });
}

void cast_strided(const Tensor& in, const Tensor& out) {
  const auto loop = kernels::make_loop<2>(in.shape(), {out.strides(), in.strides()});
  kernels::visit_vector_dtype(in.dtype(), [&]<class In>() {
    kernels::visit_vector_dtype(out.dtype(), [&]<class Out>() {
      Copy<In, Out>{in.data<In>(), out.mutable_data<Out>(), loop}.run();
    });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(cast_flat);
HWY_EXPORT(cast_strided);

void copy_bytes(const Tensor& in, const Tensor& out) {
  const auto* from = static_cast<const char*>(in.raw_data());
  auto* to = static_cast<char*>(out.mutable_raw_data());
  parallel_for(static_cast<std::int64_t>(in.bytes()), 1 << 18,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
}

void run_dense(const KernelArgs& args) {
  const Tensor& in = args.input(0);
  const Tensor& out = args.output();
  if (in.dtype() == out.dtype()) {
    copy_bytes(in, out);
  } else {
    HWY_DYNAMIC_DISPATCH(cast_flat)(in, out);
  }
}

Support supports_dense(const KernelArgs& args) {
  const Tensor& in = args.input(0);
  const Tensor& out = args.output();
  if (!same_dense_layout(in, out)) return Support::no("the layouts differ");
  if (in.dtype() == out.dtype()) return Support::yes();
  return is_vector_dtype(in.dtype()) && is_vector_dtype(out.dtype())
             ? Support::yes()
             : Support::no("only f32, bf16 and f16 are vectorised");
}

void run_strided(const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(cast_strided)(args.input(0), args.output());
}

Support supports_strided(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype()) && is_vector_dtype(args.output().dtype())
             ? Support::yes()
             : Support::no("only f32, bf16 and f16 are vectorised");
}

void copy_plain(const KernelArgs& args) { copy_elements(args.input(0), args.output()); }

constexpr KernelList kCopies{{{{"cpu_dense", supports_dense, run_dense},
                               {"cpu_strided", supports_strided, run_strided},
                               {"cpu_plain", nullptr, copy_plain}}}};

}  // namespace

extern const KernelList cast = kCopies;
extern const KernelList to_format = kCopies;

}  // namespace mezzo::kernels::cpu
#endif
