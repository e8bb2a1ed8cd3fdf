// Enlarging by repeating pixels, and its gradient, over channels-last images: a pixel's channels
// are contiguous.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/upsample.cpp"
#include <cstring>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/rows-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/upsample_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Sums a vector of channels over the scale.h by scale.w pixels from `first` on; rows are `row`
// elements apart.
template <class T, class Part>
HWY_INLINE F32Vec sum_of_block(const T* first, Part part, std::int64_t row, std::int64_t channels,
                               Size2d scale) {
  auto sum = hn::Zero(F32());
  for (std::int64_t h = 0; h < scale.h; ++h) {
    const T* pixel = first + h * row;
    for (std::int64_t w = 0; w < scale.w; ++w, pixel += channels) {
      sum = hn::Add(sum, load(pixel, part));
    }
  }
  return sum;
}

// Sums scale.h rows of a gradient, each of `width` * scale.w pixels, to a row of `width` pixels.
template <class T>
void sum_repetitions(const T* grad, T* out, std::int64_t width, std::int64_t channels,
                     Size2d scale) {
  const std::int64_t row = width * scale.w * channels;
  for (std::int64_t pixel = 0; pixel < width; ++pixel) {
    const T* first = grad + pixel * scale.w * channels;
    for_row(channels, [&](std::int64_t c, auto part) HWY_ATTR {
      store(sum_of_block(first + c, part, row, channels, scale), out + pixel * channels + c, part);
    });
  }
}

void upsample_nearest2d_grad(const KernelArgs& args) {
  const Size2d scale = args.attrs<UpsampleAttrs>().scale;
  const Tensor grad = kernels::dense(args.input(0), Format::kChannelsLast);
  const Tensor& out = args.output();
  const std::int64_t width = out.size(3);
  const std::int64_t channels = out.size(1);
  const std::int64_t row = width * channels;
  const std::int64_t large = row * scale.h * scale.w;
  kernels::visit_vector_dtype(out.dtype(), [&]<class T>() {
    const T* from = grad.data<T>();
    T* to = out.mutable_data<T>();
    parallel_for(out.size(0) * out.size(2), std::max<std::int64_t>(1, kElementGrain / large),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     sum_repetitions(from + i * large, to + i * row, width, channels, scale);
                   }
                 });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(upsample_nearest2d_grad);

// Repeats every pixel of a row across, and the resulting row down.
void repeat_row(const std::byte* x, std::byte* out, std::int64_t width, std::size_t pixel_bytes,
                Size2d scale) {
  std::byte* to = out;
  for (std::int64_t pixel = 0; pixel < width; ++pixel, x += pixel_bytes) {
    for (std::int64_t w = 0; w < scale.w; ++w, to += pixel_bytes) std::memcpy(to, x, pixel_bytes);
  }
  const auto row_bytes = static_cast<std::size_t>(to - out);
  for (std::int64_t h = 1; h < scale.h; ++h, to += row_bytes) std::memcpy(to, out, row_bytes);
}

void upsample(const KernelArgs& args) {
  const Size2d scale = args.attrs<UpsampleAttrs>().scale;
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const std::int64_t width = x.size(3);
  const std::size_t pixel_bytes = static_cast<std::size_t>(x.size(1)) * size_of(x.dtype());
  const std::size_t row_bytes = static_cast<std::size_t>(width) * pixel_bytes;
  const std::size_t large_bytes = row_bytes * static_cast<std::size_t>(scale.h * scale.w);
  const auto* from = static_cast<const std::byte*>(x.raw_data());
  auto* to = static_cast<std::byte*>(args.output().mutable_raw_data());
  const auto bytes = static_cast<std::int64_t>(large_bytes);
  parallel_for(
      x.size(0) * x.size(2), std::max<std::int64_t>(1, kElementGrain / bytes),
      [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          repeat_row(from + i * row_bytes, to + i * large_bytes, width, pixel_bytes, scale);
        }
      });
}

}  // namespace

extern const KernelList upsample_nearest2d{{{{"cpu_copy", nullptr, upsample}}}};
extern const KernelList upsample_nearest2d_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(upsample_nearest2d_grad)(args);
});

}  // namespace mezzo::kernels::cpu
#endif
