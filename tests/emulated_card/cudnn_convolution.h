// The convolutions of the emulated cuDNN, over tensors with any strides.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/emulated_card/elements.h"

namespace mezzo::emulated_card {

using Sizes = std::array<std::int64_t, 4>;

// The order of sizes and strides is n, c, h, w for images and o, c / groups, kh, kw for weights.
struct Tensor {
  Element type = Element::kF32;
  Sizes sizes{};
  Sizes strides{};
  std::int64_t uid = 0;
  std::int64_t alignment = 1;
  bool is_virtual = false;  // between two operations, not in memory

  // The distance from the first to the last element.
  std::int64_t extent() const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) count += (sizes[i] - 1) * strides[i];
    return count;
  }
  ByteRange range(const void* data) const {
    return {data, static_cast<std::size_t>(extent()) * size_of(type)};
  }
};

struct Window {
  std::array<std::int64_t, 2> before{}, after{}, dilation{}, stride{};  // h, w
};

enum class Pass : std::uint8_t { kForward, kGradInput, kGradWeight };

struct Convolution {
  Pass pass = Pass::kForward;
  Tensor x, weight, y;
  Window window;
  float alpha = 1, beta = 0;
  bool hands_on_sums = false;  // an identity operation after it writes the result

  std::int64_t groups() const { return x.sizes[1] / weight.sizes[1]; }
  const Tensor& result() const {
    return pass == Pass::kForward ? y : pass == Pass::kGradInput ? x : weight;
  }
  Tensor& result() { return pass == Pass::kForward ? y : pass == Pass::kGradInput ? x : weight; }
  // The type of the operands, which must agree.
  Element type() const { return pass == Pass::kForward ? x.type : y.type; }
};

// The rounding of operands before an engine multiplies them.
enum class Rounding : std::uint8_t { kNone, kTf32, kCoarse };

// A tensor in f32 with its channels innermost, and the operand's tensor in device memory.
class Dense {
 public:
  explicit Dense(const Tensor& tensor) : tensor_(tensor) {
    const auto [n, c, h, w] = tensor.sizes;
    values_.resize(static_cast<std::size_t>(n * c * h * w));
  }

  float* pixel(std::int64_t n, std::int64_t h, std::int64_t w) {
    return values_.data() + offset(n, h, w);
  }
  const float* pixel(std::int64_t n, std::int64_t h, std::int64_t w) const {
    return values_.data() + offset(n, h, w);
  }

  void read(const void* from, Rounding rounding) {
    for_each_pixel([&](float* to, std::int64_t first) {
      widen(tensor_.type, from, first, tensor_.strides[1], tensor_.sizes[1], to);
    });
    if (rounding == Rounding::kNone) return;
    for (float& value : values_) {
      value = rounding == Rounding::kTf32 ? round_to_tf32(value) : round_to(Element::kBf16, value);
    }
  }
  void write(void* to, float alpha, float beta) {
    for_each_pixel([&](const float* sums, std::int64_t first) {
      for (std::int64_t c = 0; c < tensor_.sizes[1]; ++c) {
        const std::int64_t at = first + c * tensor_.strides[1];
        float value = alpha * sums[c];
        if (beta != 0) value += beta * widen(tensor_.type, to, at);  // or it may hold anything
        narrow(tensor_.type, value, to, at);
      }
    });
  }

 private:
  std::int64_t offset(std::int64_t n, std::int64_t h, std::int64_t w) const {
    const Sizes& s = tensor_.sizes;
    return ((n * s[2] + h) * s[3] + w) * s[1];
  }
  // Calls use(the pixel here, its offset in the device's tensor).
  template <class Use>
  void for_each_pixel(const Use& use) {
    const Sizes& strides = tensor_.strides;
    for (std::int64_t n = 0; n < tensor_.sizes[0]; ++n) {
      for (std::int64_t h = 0; h < tensor_.sizes[2]; ++h) {
        for (std::int64_t w = 0; w < tensor_.sizes[3]; ++w) {
          use(pixel(n, h, w), n * strides[0] + h * strides[2] + w * strides[3]);
        }
      }
    }
  }

  Tensor tensor_;
  std::vector<float> values_;
};

// A convolution with its addresses, ready to run. It also multiplies the zeros of the padding, like
// most of cuDNN's engines: an infinite weight turns them into NaNs.
class ConvolutionRun {
 public:
  struct Places {
    void* x = nullptr;
    void* weight = nullptr;
    void* y = nullptr;
  };

  ConvolutionRun(const Convolution& problem, Rounding rounding, const Places& places)
      : p_(problem),
        rounding_(rounding),
        places_(places),
        group_c_(problem.weight.sizes[1]),
        group_o_(problem.weight.sizes[0] / problem.groups()),
        taps_(problem.weight.sizes[2] * problem.weight.sizes[3]) {}

  void run() const {
    Dense x(p_.x);
    Dense weight(p_.weight);
    Dense y(p_.y);
    if (p_.pass != Pass::kGradInput) x.read(places_.x, rounding_);
    if (p_.pass != Pass::kGradWeight) weight.read(places_.weight, rounding_);
    if (p_.pass != Pass::kForward) y.read(places_.y, rounding_);
    for (std::int64_t group = 0; group < p_.groups(); ++group) {
      switch (p_.pass) {
        case Pass::kForward: sum_images(x, weight, group, y); break;
        case Pass::kGradInput: sum_images(y, weight, group, x); break;
        case Pass::kGradWeight: sum_weight(x, y, group, weight); break;
      }
    }
    switch (p_.pass) {
      case Pass::kForward: return y.write(places_.y, p_.alpha, p_.beta);
      case Pass::kGradInput: return x.write(places_.x, p_.alpha, p_.beta);
      case Pass::kGradWeight: return weight.write(places_.weight, p_.alpha, p_.beta);
    }
  }

 private:
  struct Pixel {
    std::int64_t n, h, w;
  };
  static Pixel pixel_of(std::int64_t index, const Tensor& images) {
    const Sizes& s = images.sizes;
    return {index / (s[2] * s[3]), index / s[3] % s[2], index % s[3]};
  }
  static std::int64_t pixels_of(const Tensor& images) {
    return images.sizes[0] * images.sizes[2] * images.sizes[3];
  }

  // Along one axis: the place in x under a tap of a place in y, or the other way around. Negative
  // if there is none.
  std::int64_t place_in_x(std::size_t axis, std::int64_t at, std::int64_t tap) const {
    const Window& w = p_.window;
    const std::int64_t place = at * w.stride[axis] - w.before[axis] + tap * w.dilation[axis];
    return place < p_.x.sizes[2 + axis] ? place : -1;
  }
  std::int64_t place_in_y(std::size_t axis, std::int64_t at, std::int64_t tap) const {
    const Window& w = p_.window;
    const std::int64_t steps = at + w.before[axis] - tap * w.dilation[axis];
    if (steps < 0 || steps % w.stride[axis] != 0) return -1;
    return steps / w.stride[axis] < p_.y.sizes[2 + axis] ? steps / w.stride[axis] : -1;
  }

  // Collects the channels of a group that meet the taps of a pixel: [taps, channels]. Padding is 0.
  void gather(const Dense& images, bool from_x, const Pixel& pixel, std::int64_t group,
              float* to) const {
    const std::int64_t channels = from_x ? group_c_ : group_o_;
    for (std::int64_t kh = 0; kh < p_.weight.sizes[2]; ++kh) {
      const std::int64_t h = from_x ? place_in_x(0, pixel.h, kh) : place_in_y(0, pixel.h, kh);
      for (std::int64_t kw = 0; kw < p_.weight.sizes[3]; ++kw, to += channels) {
        const std::int64_t w = from_x ? place_in_x(1, pixel.w, kw) : place_in_y(1, pixel.w, kw);
        if (h < 0 || w < 0) {
          std::fill_n(to, channels, 0.0F);
        } else {
          std::copy_n(images.pixel(pixel.n, h, w) + group * channels, channels, to);
        }
      }
    }
  }

  // [taps, channels of the operand] x [channels of the result].
  Panels panels_of(const Dense& weight, std::int64_t group) const {
    const bool is_forward = p_.pass == Pass::kForward;
    Panels panels(taps_ * (is_forward ? group_c_ : group_o_), is_forward ? group_o_ : group_c_);
    for (std::int64_t o = 0; o < group_o_; ++o) {
      for (std::int64_t tap = 0; tap < taps_; ++tap) {
        const std::int64_t across = p_.weight.sizes[3];
        const float* from = weight.pixel(group * group_o_ + o, tap / across, tap % across);
        for (std::int64_t c = 0; c < group_c_; ++c) {
          const std::int64_t row = tap * (is_forward ? group_c_ : group_o_) + (is_forward ? c : o);
          panels.set(row, is_forward ? o : c, from[c]);
        }
      }
    }
    return panels;
  }

  void sum_images(const Dense& from, const Dense& weight, std::int64_t group, Dense& to) const {
    constexpr std::int64_t kAtOnce = 64;  // pixels
    const Panels panels = panels_of(weight, group);
    const std::int64_t channels = p_.pass == Pass::kForward ? group_o_ : group_c_;
    const Tensor& result = p_.result();
    std::vector<float> rows(static_cast<std::size_t>(kAtOnce * panels.depth()));
    std::vector<double> sums(static_cast<std::size_t>(kAtOnce * panels.columns()));
    for (std::int64_t first = 0; first < pixels_of(result); first += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, pixels_of(result) - first);
      for (std::int64_t i = 0; i < count; ++i) {
        gather(from, p_.pass == Pass::kForward, pixel_of(first + i, result), group,
               rows.data() + i * panels.depth());
      }
      std::fill(sums.begin(), sums.end(), 0.0);
      add_product(rows.data(), count, panels, sums.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const Pixel at = pixel_of(first + i, result);
        const double* of_pixel = sums.data() + i * panels.columns();
        float* out = to.pixel(at.n, at.h, at.w) + group * channels;
        for (std::int64_t c = 0; c < channels; ++c) out[c] = static_cast<float>(of_pixel[c]);
      }
    }
  }

  void sum_weight(const Dense& x, const Dense& y, std::int64_t group, Dense& to) const {
    constexpr std::int64_t kAtOnce = 128;  // pixels of y, over which the sums go
    const std::int64_t pixels = pixels_of(p_.y);
    std::vector<float> row(static_cast<std::size_t>(taps_ * group_c_));
    std::vector<double> sums;
    for (std::int64_t first = 0; first < pixels; first += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, pixels - first);
      Panels taps(count, taps_ * group_c_);
      std::vector<float> of_y(static_cast<std::size_t>(group_o_ * count));
      for (std::int64_t i = 0; i < count; ++i) {
        const Pixel at = pixel_of(first + i, p_.y);
        gather(x, true, at, group, row.data());
        taps.set_row(i, row.data(), taps_ * group_c_);
        const float* from = y.pixel(at.n, at.h, at.w) + group * group_o_;
        for (std::int64_t o = 0; o < group_o_; ++o) {
          of_y[static_cast<std::size_t>(o * count + i)] = from[o];
        }
      }
      sums.resize(static_cast<std::size_t>(group_o_ * taps.columns()));
      add_product(of_y.data(), group_o_, taps, sums.data());
    }
    const std::int64_t columns = static_cast<std::int64_t>(sums.size()) / group_o_;
    for (std::int64_t o = 0; o < group_o_; ++o) {
      float* out = to.pixel(group * group_o_ + o, 0, 0);
      const double* from = sums.data() + o * columns;
      for (std::int64_t i = 0; i < taps_ * group_c_; ++i) out[i] = static_cast<float>(from[i]);
    }
  }

  Convolution p_;
  Rounding rounding_;
  Places places_;
  std::int64_t group_c_, group_o_, taps_;
};

}  // namespace mezzo::emulated_card
