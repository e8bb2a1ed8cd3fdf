#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/planar/conv2d_row_sums.cpp"
#include "mezzo/kernels/cpu/conv/planar/conv2d_row_sums.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/planar/planar_problem.h"
#include "mezzo/kernels/cpu/conv/planar/row_sums-inl.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::row_sums::Problem;
using kernels::row_sums::RowSum;

// Packs the weight [o][kernel row][piece] as [kernel row][vector of a piece][o]; zeros follow the
// last value of a piece.
Tensor pack(const Problem& p, const float* weight) {
  const std::int64_t vectors = ceil_div(p.piece(), lanes());
  Tensor packed = empty({p.kernel.h, vectors, p.out_channels, lanes()});
  float* to = packed.mutable_data<float>();
  for (std::int64_t k = 0; k < p.kernel.h; ++k) {
    for_row(p.piece(), [&](std::int64_t first, auto part) HWY_ATTR {
      for (std::int64_t o = 0; o < p.out_channels; ++o, to += lanes()) {
        store(load(weight + (o * p.kernel.h + k) * p.piece() + first, part), to);
      }
    });
  }
  return packed;
}

// The same for dot products: pairs of output channels are adjacent; an odd last one is paired with
// zeros.
Tensor pack(const Problem& p, const BFloat16* weight) {
  const std::int64_t vectors = ceil_div(p.piece(), lanes());
  Tensor packed = zeros({p.kernel.h, vectors, p.steps(), lanes(), 2}, DType::kBf16);
  BFloat16* to = packed.mutable_data<BFloat16>();
  for (std::int64_t k = 0; k < p.kernel.h; ++k) {
    for (std::int64_t first = 0; first < p.piece(); first += lanes()) {
      const std::int64_t count = std::min(lanes(), p.piece() - first);
      for (std::int64_t o = 0; o < p.out_channels; ++o) {
        const BFloat16* const from = weight + (o * p.kernel.h + k) * p.piece() + first;
        BFloat16* const pairs = to + o / 2 * lanes() * 2 + o % 2;
        for (std::int64_t i = 0; i < count; ++i) pairs[2 * i] = from[i];
      }
      to += p.steps() * lanes() * 2;
    }
  }
  return packed;
}

// Rows of the result's gradient in the form that is multiplied: f32, or an even number of bf16
// channels.
template <class T>
class PixelRows {
 public:
  PixelRows(const Problem& p, const T* grad) : problem_(p), grad_(grad) {
    if (is_direct()) return;
    copies_.resize(static_cast<std::size_t>(p.kernel.h * row_bytes()));
    in_copies_.assign(static_cast<std::size_t>(p.kernel.h), -1);
  }

  std::int64_t pixel_bytes() const { return problem_.steps() * 4; }

  // A row, by its index over all images. All rows that one row of an image reads are held at the
  // same time.
  const char* row(std::int64_t index) {
    const T* const from = grad_ + index * problem_.result.w * problem_.out_channels;
    if (is_direct()) return reinterpret_cast<const char*>(from);
    const std::int64_t at = index % problem_.kernel.h;
    char* const copy = copies_.data() + at * row_bytes();
    std::int64_t& in_copy = in_copies_[static_cast<std::size_t>(at)];
    if (in_copy != index) fill(from, copy);
    in_copy = index;
    return copy;
  }

 private:
  bool is_direct() const {
    return problem_.by_dots ? problem_.out_channels % 2 == 0 : std::is_same_v<T, float>;
  }

  std::int64_t row_bytes() const { return problem_.result.w * pixel_bytes(); }

  void fill(const T* from, char* to) const {
    if (!problem_.by_dots) {
      for_row(problem_.result.w * problem_.out_channels, [&](std::int64_t i, auto part) HWY_ATTR {
        store(load(from + i, part), reinterpret_cast<float*>(to) + i, part);
      });
      return;
    }
    for (std::int64_t i = 0; i < problem_.result.w; ++i, to += pixel_bytes()) {
      std::memcpy(to, from + i * problem_.out_channels,
                  static_cast<std::size_t>(problem_.out_channels) * sizeof(T));
    }
  }

  const Problem& problem_;
  const T* grad_;
  std::vector<char> copies_;
  std::vector<std::int64_t> in_copies_;  // the row that each copy holds
};

// Computes rows of the images on one thread.
template <class T>
class Worker {
 public:
  Worker(const Problem& p, const T* grad, const char* weight)
      : problem_(p),
        rows_(p, grad),
        weight_(weight),
        row_(static_cast<std::size_t>(p.row_pixels() * p.channels + lanes())) {
    sum_.pixels = p.result.w;
    sum_.pixel_bytes = rows_.pixel_bytes();
    sum_.steps = p.steps();
    sum_.vectors = ceil_div(p.piece(), lanes());
    sum_.last = p.piece() - (sum_.vectors - 1) * lanes();
    sum_.row = row_.data();
    sum_.apart = p.stride.w * p.channels;
  }

  template <class Out>
  void make(std::int64_t index, Out* out) {
    list_taps(index / problem_.image.h, index % problem_.image.h + problem_.padding.top);
    std::ranges::fill(row_, 0.0F);
    add_row(sum_, problem_.by_dots);
    const float* const from = row_.data() + problem_.padding.left * problem_.channels;
    const std::int64_t count = problem_.image.w * problem_.channels;
    for_row(count, [&](std::int64_t i, auto part)
                       HWY_ATTR { store(load(from + i, part), out + index * count + i, part); });
  }

 private:
  // Lists the rows of the result's gradient whose windows reach `row` of a padded image.
  void list_taps(std::int64_t image, std::int64_t row) {
    const Problem& p = problem_;
    const std::int64_t kernel_row = sum_.vectors * sum_.steps * lanes() * 4;
    const std::int64_t first =
        std::max<std::int64_t>(0, (row - p.kernel.h + p.stride.h) / p.stride.h);
    sum_.taps.clear();
    for (std::int64_t y = first; y < p.result.h && y * p.stride.h <= row; ++y) {
      const std::int64_t k = row - y * p.stride.h;
      sum_.taps.push_back({rows_.row(image * p.result.h + y), weight_ + k * kernel_row});
    }
  }

  const Problem& problem_;
  PixelRows<T> rows_;
  const char* weight_;
  std::vector<float> row_;
  RowSum sum_;
};

void sum_rows(const Problem& p, const Tensor& grad, const Tensor& weight, const Tensor& out) {
  const Tensor packed =
      p.by_dots ? pack(p, weight.data<BFloat16>()) : pack(p, weight.data<float>());
  const char* const factors = static_cast<const char*>(packed.raw_data());
  // If a thread's rows have fewer products than this, the thread costs more than it saves.
  constexpr std::int64_t kGrainProducts = 1 << 13;
  const std::int64_t row = p.result.w * p.piece() / lanes() * p.steps() + 1;
  kernels::visit_vector_dtype(grad.dtype(), [&]<class T>() {
    parallel_for(p.images * p.image.h, kGrainProducts / row + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   Worker<T> worker(p, grad.data<T>(), factors);
                   kernels::visit_vector_dtype(out.dtype(), [&]<class Out>() {
                     for (std::int64_t i = begin; i < end; ++i)
                       worker.make(i, out.mutable_data<Out>());
                   });
                 });
  });
}

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::conv {
namespace {

HWY_EXPORT(sum_rows);

row_sums::Problem problem_of(const KernelArgs& args) {
  const bool is_bf16 = args.input(0).dtype() == DType::kBf16;
  return row_sums::problem_of(grad_input_problem(args), is_bf16 && bf16_unit() == Bf16Unit::kDots);
}

}  // namespace

void run_row_sums(const KernelArgs& args) {
  const row_sums::Problem p = problem_of(args);
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Tensor weight = p.by_dots ? dense(args.input(1), Format::kChannelsLast)
                                  : dense_f32(args.input(1), Format::kChannelsLast);
  HWY_DYNAMIC_DISPATCH(sum_rows)(p, grad, weight, args.output());
}

}  // namespace mezzo::kernels::conv
#endif
