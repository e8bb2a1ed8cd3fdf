#include "mezzo/kernels/cpu/conv/as_gemm/pixel_pairs.h"

#include <algorithm>

#include "mezzo/core/half.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/ops/cast.h"

namespace mezzo::kernels::conv {
namespace {

constexpr std::uint64_t kWhole = 0x77686f6c;  // DerivedKey::kind of matrices
constexpr std::int64_t kGrain = 1 << 14;      // values of a weight for each thread

// The tap, of `count`, by which a result reads an image's index along one axis; -1 if none does.
std::int64_t tap_between(std::int64_t result, std::int64_t index, std::int64_t stride,
                         std::int64_t dilation, std::int64_t padding, std::int64_t count) {
  const std::int64_t distance = index - (result * stride - padding);
  const bool joins = distance >= 0 && distance % dilation == 0 && distance / dilation < count;
  return joins ? distance / dilation : -1;
}

// The number of pairs of indices that a tap joins along one axis.
std::int64_t joined(std::int64_t results, std::int64_t size, std::int64_t stride,
                    std::int64_t dilation, std::int64_t padding, std::int64_t count) {
  std::int64_t pairs = 0;
  for (std::int64_t result = 0; result < results; ++result) {
    for (std::int64_t i = 0; i < size; ++i) {
      pairs += tap_between(result, i, stride, dilation, padding, count) >= 0 ? 1 : 0;
    }
  }
  return pairs;
}

std::uint64_t geometry_of(const Problem& p) {
  onednn::Key key(kWhole);
  const Conv2dAttrs& a = p.attrs;
  for (const std::int64_t number :
       {p.x[2], p.x[3], p.y[2], p.y[3], p.weight[2], p.weight[3], a.stride.h, a.stride.w,
        a.dilation.h, a.dilation.w, a.padding.top, a.padding.left}) {
    key.add(number);
  }
  return key.hash();
}

struct KeptMatrix final : RefCounted {
  explicit KeptMatrix(Tensor made) : matrix(std::move(made)) {}
  Tensor matrix;
};

}  // namespace

bool PixelPairs::are_worth_it(const Problem& p) {
  // For fewer images, reading the matrix takes longer than a convolution kernel.
  constexpr std::int64_t kFewestImages = 32;
  constexpr std::int64_t kMostGrowth = 4;
  if (p.x[0] < kFewestImages) return false;
  const std::int64_t pairs = p.x[2] * p.x[3] * p.y[2] * p.y[3];
  if (pairs > kMostGrowth * p.weight[2] * p.weight[3]) return false;
  const Conv2dAttrs& a = p.attrs;
  const std::int64_t full =
      joined(p.y[2], p.x[2], a.stride.h, a.dilation.h, a.padding.top, p.weight[2]) *
      joined(p.y[3], p.x[3], a.stride.w, a.dilation.w, a.padding.left, p.weight[3]);
  return 2 * full >= pairs;
}

PixelPairs::PixelPairs(const Problem& p)
    : outputs_(p.weight[0]),
      inputs_(p.weight[1]),
      taps_(p.weight[2] * p.weight[3]),
      pixels_(p.x[2] * p.x[3]),
      result_pixels_(p.y[2] * p.y[3]),
      geometry_(geometry_of(p)) {
  const Conv2dAttrs& a = p.attrs;
  joined_by_.reserve(result_pixels_ * pixels_);
  for (std::int64_t result = 0; result < result_pixels_; ++result) {
    for (std::int64_t pixel = 0; pixel < pixels_; ++pixel) {
      const std::int64_t h = tap_between(result / p.y[3], pixel / p.x[3], a.stride.h, a.dilation.h,
                                         a.padding.top, p.weight[2]);
      const std::int64_t w = tap_between(result % p.y[3], pixel % p.x[3], a.stride.w, a.dilation.w,
                                         a.padding.left, p.weight[3]);
      joined_by_.push_back(h >= 0 && w >= 0 ? h * p.weight[3] + w : kNoTap);
    }
  }
  for (std::int64_t tap = 0; tap < taps_; ++tap) {
    if (std::ranges::find(joined_by_, tap) != joined_by_.end()) used_taps_.push_back(tap);
  }
}

template <class Visit>
void PixelPairs::for_pairs(std::int64_t output, const Visit& visit) const {
  const std::int64_t width = pixels_ * inputs_;
  for (std::int64_t pair = 0; pair < result_pixels_ * pixels_; ++pair) {
    const std::int64_t row = pair / pixels_ * outputs_ + output;
    visit(row * width + pair % pixels_ * inputs_, joined_by_[pair]);
  }
}

// Both functions go through output channels one by one. A channel's values are laid out as [tap][c]
// in the first-level cache, where whole rows of the matrix are copied from or added to.
template <class Bits>
void PixelPairs::expand(const Bits* weight, const WeightSteps& steps, Bits* matrix) const {
  const std::int64_t size = inputs_ * taps_;
  parallel_for(outputs_, kGrain / size, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Bits> by_tap(size);
    const std::vector<Bits> zeros(inputs_);
    for (std::int64_t o = begin; o < end; ++o) {
      for (const std::int64_t tap : used_taps_) {
        const Bits* from = weight + o * size + tap * steps.tap;
        Bits* to = by_tap.data() + tap * inputs_;
        for (std::int64_t c = 0; c < inputs_; ++c) to[c] = from[c * steps.channel];
      }
      for_pairs(o, [&](std::int64_t at, std::int64_t tap) {
        const Bits* from = tap == kNoTap ? zeros.data() : by_tap.data() + tap * inputs_;
        std::copy_n(from, inputs_, matrix + at);
      });
    }
  });
}

template <class T>
void PixelPairs::fold(const float* matrix, const WeightSteps& steps, T* weight) const {
  const std::int64_t size = inputs_ * taps_;
  parallel_for(outputs_, kGrain / size, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> by_tap(size);
    for (std::int64_t o = begin; o < end; ++o) {
      std::ranges::fill(by_tap, 0.0F);
      for_pairs(o, [&](std::int64_t at, std::int64_t tap) {
        if (tap == kNoTap) return;
        float* sums = by_tap.data() + tap * inputs_;
        for (std::int64_t c = 0; c < inputs_; ++c) sums[c] += matrix[at + c];
      });
      std::fill_n(weight + o * size, size, T(0.0F));
      for (const std::int64_t tap : used_taps_) {
        const float* from = by_tap.data() + tap * inputs_;
        T* to = weight + o * size + tap * steps.tap;
        for (std::int64_t c = 0; c < inputs_; ++c) to[c * steps.channel] = T(from[c]);
      }
    }
  });
}

Tensor PixelPairs::made_matrix(const Tensor& weight) const {
  const Tensor plain = dense(weight, weight.format());
  const WeightSteps steps = *weight_steps(plain);
  const Tensor matrix = empty(matrix_shape(), weight.dtype());
  if (size_of(weight.dtype()) == sizeof(float)) {
    expand(static_cast<const std::uint32_t*>(plain.raw_data()), steps,
           static_cast<std::uint32_t*>(matrix.mutable_raw_data()));
  } else {
    expand(static_cast<const std::uint16_t*>(plain.raw_data()), steps,
           static_cast<std::uint16_t*>(matrix.mutable_raw_data()));
  }
  return matrix;
}

Tensor PixelPairs::matrix_of(const Tensor& weight) const {
  if (!onednn::is_worth_keeping(weight)) return made_matrix(weight);
  const std::uint64_t version = weight.version();
  const DerivedKey key = derived_key(weight, kWhole, geometry_);
  if (const auto found = weight.storage()->derived().find(key, version)) {
    return static_cast<const KeptMatrix*>(found.get())->matrix;
  }
  const Tensor matrix = made_matrix(weight);
  weight.storage()->derived().put(key, version, Ref<RefCounted>(new KeptMatrix(matrix)));
  return matrix;
}

void PixelPairs::fold(const Tensor& matrix, const Tensor& weight) const {
  const Tensor plain =
      weight_steps(weight).has_value() ? weight : empty(weight.shape(), weight.dtype());
  const WeightSteps steps = *weight_steps(plain);
  visit_vector_dtype(weight.dtype(), [&]<class T>() {
    fold(matrix.data<float>(), steps, static_cast<T*>(plain.mutable_raw_data()));
  });
  if (plain.impl() != weight.impl()) convert_into(plain, weight);
}

}  // namespace mezzo::kernels::conv
