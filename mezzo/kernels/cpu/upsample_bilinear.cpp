// Bilinear interpolation and its gradient over channels-last images: a pixel's channels are
// contiguous. Both are weighted sums over rows and columns. The forward pass sums the pixels around
// a result, the gradient the results around a pixel. So nothing is scattered and threads never
// write to the same place. A sum stays f32 and is rounded once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/upsample_bilinear.cpp"
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/pool/pool-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/upsample_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// Consecutive neighbours along an axis, with the weight of each.
struct PixelNeighbours {
  std::int64_t first;
  std::int64_t count;
  const float* weights;
};

// The neighbours of every index along an axis: of every pixel, which are results, or of every
// result, which are pixels.
class NeighbourTable {
 public:
  NeighbourTable(const BilinearAxis& axis, bool of_pixels) {
    const std::int64_t places = of_pixels ? axis.in : axis.out;
    for (std::int64_t i = 0; i < places; ++i) {
      const auto [first, last] = of_pixels ? axis.results_of(i) : axis.pixels_of(i);
      places_.push_back({first, last - first, weights_.size()});
      for (std::int64_t k = first; k < last; ++k) {
        const double weight = of_pixels ? axis.weight<double>(k, i) : axis.weight<double>(i, k);
        weights_.push_back(static_cast<float>(weight));
      }
    }
  }

  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  PixelNeighbours operator[](std::int64_t i) const {
    const Place& place = places_[static_cast<std::size_t>(i)];
    return {place.first, place.count, weights_.data() + place.weights};
  }

 private:
  struct Place {
    std::int64_t first;
    std::int64_t count;
    std::size_t weights;  // index of the first weight
  };

  std::vector<Place> places_;
  std::vector<float> weights_;
};

// The images [n, c, h, w] that are read, and the neighbours in them of every row and column that is
// written.
struct Interpolation {
  std::int64_t n;
  std::int64_t c;
  Size2d from;
  NeighbourTable rows;
  NeighbourTable columns;

  std::int64_t elements() const { return n * from.h * from.w * c; }
};

// The weighted sum of a vector of channels over neighbours, the first of which is at `p`.
template <bool kCut, class T>
HWY_INLINE F32Vec weighted_sum(const Interpolation& all, const PixelNeighbours& rows,
                               const PixelNeighbours& columns, const T* p, const T* end) {
  auto total = hn::Zero(F32());
  const std::int64_t row_step = all.from.w * all.c;
  for (std::int64_t h = 0; h < rows.count; ++h, p += row_step) {
    auto sum = hn::Zero(F32());
    const T* pixel = p;
    for (std::int64_t w = 0; w < columns.count; ++w, pixel += all.c) {
      sum = hn::MulAdd(load_row<kCut>(end, pixel), hn::Set(F32(), columns.weights[w]), sum);
    }
    total = hn::MulAdd(sum, hn::Set(F32(), rows.weights[h]), total);
  }
  return total;
}

// Writes a row of pixels at `to`; the neighbours are in the image at `image`.
template <class T>
void write_row(const Interpolation& all, const PixelNeighbours& rows, const T* image, const T* end,
               T* to, const T* to_end) {
  for (std::int64_t column = 0; column < all.columns.size(); ++column, to += all.c) {
    const PixelNeighbours columns = all.columns[column];
    const T* const from = image + (rows.first * all.from.w + columns.first) * all.c;
    const T* const last = from + ((rows.count - 1) * all.from.w + columns.count - 1) * all.c;
    for (std::int64_t channel = 0; channel < all.c; channel += lanes()) {
      const bool cut = end - last < channel + lanes();
      const auto sum = cut ? weighted_sum<true>(all, rows, columns, from + channel, end)
                           : weighted_sum<false>(all, rows, columns, from + channel, end);
      store_before(to_end, sum, to + channel);
    }
  }
}

template <class T>
void interpolate(const Interpolation& all, const T* from, T* to) {
  const std::int64_t height = all.rows.size();
  const std::int64_t row = all.columns.size() * all.c;
  const std::int64_t image = all.from.h * all.from.w * all.c;
  const std::int64_t work = std::max<std::int64_t>(row + image / height, 1);
  parallel_for(all.n * height, std::max<std::int64_t>(1, kElementGrain / work),
               [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
                 for (std::int64_t i = begin; i < end; ++i) {
                   write_row(all, all.rows[i % height], from + i / height * image,
                             from + all.elements(), to + i * row, to + end * row);
                 }
               });
}

void run(const KernelArgs& args, const Shape& image, bool is_gradient) {
  const auto& attrs = args.attrs<UpsampleBilinearAttrs>();
  const Tensor from = kernels::dense(args.input(0), Format::kChannelsLast);
  const auto table = [&](std::int64_t in, std::int64_t out) {
    return NeighbourTable(bilinear_axis(in, out, attrs.align_corners), is_gradient);
  };
  const Interpolation all{from.size(0),
                          from.size(1),
                          {from.size(2), from.size(3)},
                          table(image[2], attrs.size.h),
                          table(image[3], attrs.size.w)};
  kernels::visit_vector_dtype(from.dtype(), [&]<class T>() {
    interpolate(all, from.data<T>(), args.output().mutable_data<T>());
  });
}

}  // namespace

void upsample_bilinear2d(const KernelArgs& args) { run(args, args.input(0).shape(), false); }

void upsample_bilinear2d_grad(const KernelArgs& args) { run(args, args.output().shape(), true); }

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(upsample_bilinear2d);
HWY_EXPORT(upsample_bilinear2d_grad);

}  // namespace

extern const KernelList upsample_bilinear2d = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(upsample_bilinear2d)
  (args);
});
extern const KernelList upsample_bilinear2d_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(upsample_bilinear2d_grad)(args);
});

}  // namespace mezzo::kernels::cpu
#endif
