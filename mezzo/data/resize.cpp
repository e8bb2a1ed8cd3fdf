#include "mezzo/data/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

// Fixed point. Along a row, weights have 22 bits, and sums keep 7 bits below the point, 15 in all.
// Along a column, weights have 16 bits. Either sum stays below 2^31, including half a unit for
// rounding.
constexpr int kRowBits = 22;
constexpr int kKeptBits = 7;
constexpr int kColumnBits = 16;
constexpr int kRowShift = kRowBits - kKeptBits;
constexpr int kColumnShift = kColumnBits + kKeptBits;
static_assert(255LL * (1 << kRowBits) + (1 << (kRowShift - 1)) < (1LL << 31));
static_assert((255LL << (kKeptBits + kColumnBits)) + (1 << (kColumnShift - 1)) < (1LL << 31));

// The pixels of a line from which an output pixel is computed.
struct Window {
  std::int64_t first = 0;
  std::int64_t count = 0;
  const std::int32_t* weights = nullptr;
};

// The windows of all output pixels along one axis.
class Axis {
 public:
  // Weights add up to exactly 2^bits, so that a uniform image stays unchanged.
  Axis(std::int64_t in, std::int64_t out, bool antialias, int bits) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double reach = antialias ? std::max(scale, 1.0) : 1.0;
    first_.reserve(static_cast<std::size_t>(out));
    begin_.reserve(static_cast<std::size_t>(out) + 1);
    for (std::int64_t i = 0; i < out; ++i) {
      add((static_cast<double>(i) + 0.5) * scale, reach, in, bits);
    }
    begin_.push_back(weights_.size());
  }

  Window window(std::int64_t i) const {
    const auto place = static_cast<std::size_t>(i);
    return {first_[place], static_cast<std::int64_t>(begin_[place + 1] - begin_[place]),
            &weights_[begin_[place]]};
  }
  std::int64_t largest() const { return largest_; }

 private:
  // Adds a triangle around `centre` that falls to 0 at a distance of `reach`.
  void add(double centre, double reach, std::int64_t in, int bits) {
    const auto last = std::min(static_cast<std::int64_t>(std::ceil(centre + reach - 0.5)), in);
    auto x = std::max(static_cast<std::int64_t>(std::floor(centre - reach + 0.5)), std::int64_t{0});
    const auto height = [&](std::int64_t at) {
      return std::max(1 - std::abs(static_cast<double>(at) + 0.5 - centre) / reach, 0.0);
    };
    while (x + 1 < last && height(x) == 0) ++x;
    double total = 0;
    for (std::int64_t k = x; k < last; ++k) total += height(k);
    first_.push_back(x);
    begin_.push_back(weights_.size());
    // Running totals are rounded, and weights are their differences, so that no rounding error
    // accumulates.
    double sum = 0;
    std::int32_t done = 0;
    for (; x < last; ++x) {
      sum += height(x);
      const auto now = static_cast<std::int32_t>(std::lround(std::ldexp(sum / total, bits)));
      weights_.push_back(now - done);
      done = now;
    }
    largest_ = std::max(largest_, static_cast<std::int64_t>(weights_.size() - begin_.back()));
  }

  std::vector<std::int64_t> first_;
  std::vector<std::size_t> begin_;  // the first weight of each window
  std::vector<std::int32_t> weights_;
  std::int64_t largest_ = 1;
};

// Scales one row to the new width, with kKeptBits below the point. kChannels 0: any number.
template <std::int64_t kChannels>
void scale_row(const std::uint8_t* in, const Axis& axis, std::int64_t width, std::int64_t channels,
               std::int16_t* out) {
  const std::int64_t step = kChannels == 0 ? channels : kChannels;
  for (std::int64_t x = 0; x < width; ++x) {
    const Window window = axis.window(x);
    const std::uint8_t* from = in + window.first * step;
    for (std::int64_t c = 0; c < step; ++c) {
      std::int32_t sum = 1 << (kRowShift - 1);
      for (std::int64_t k = 0; k < window.count; ++k) sum += window.weights[k] * from[k * step + c];
      out[x * step + c] = static_cast<std::int16_t>(sum >> kRowShift);
    }
  }
}

// The input's rows at their new width, computed when first needed. As many are kept as a window of
// the other axis has.
class ScaledRows {
 public:
  ScaledRows(const ImageView& in, std::int64_t width, const Axis& axis, std::int64_t kept)
      : in_(in),
        width_(width),
        axis_(axis),
        kept_(kept),
        rows_(static_cast<std::size_t>(kept * width * in.channels)) {}

  // Row y of the input. Windows of requested rows must only move down.
  const std::int16_t* at(std::int64_t y) {
    std::int16_t* row = rows_.data() + y % kept_ * width_ * in_.channels;
    if (y < next_) return row;
    next_ = y + 1;
    switch (in_.channels) {
      case 1: scale_row<1>(in_.row(y), axis_, width_, 1, row); break;
      case 3: scale_row<3>(in_.row(y), axis_, width_, 3, row); break;
      default: scale_row<0>(in_.row(y), axis_, width_, in_.channels, row);
    }
    return row;
  }

 private:
  const ImageView& in_;
  std::int64_t width_;
  const Axis& axis_;
  std::int64_t kept_;
  std::vector<std::int16_t> rows_;
  std::int64_t next_ = 0;  // rows from here on are not computed yet
};

// Two rows are by far the most frequent case: every enlarged image has it.
void mix_two(const std::int16_t* a, const std::int16_t* b, const std::int32_t* weights,
             std::span<std::uint8_t> out) {
  const std::int32_t first = weights[0];
  const std::int32_t second = weights[1];
  const std::size_t count = out.size();
  std::uint8_t* to = out.data();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t sum = first * a[i] + second * b[i] + (1 << (kColumnShift - 1));
    to[i] = static_cast<std::uint8_t>(sum >> kColumnShift);
  }
}

void mix_rows(ScaledRows& rows, const Window& window, std::vector<std::int32_t>& sums,
              std::span<std::uint8_t> out) {
  std::fill(sums.begin(), sums.end(), 1 << (kColumnShift - 1));
  for (std::int64_t k = 0; k < window.count; ++k) {
    const std::int16_t* row = rows.at(window.first + k);
    const std::int32_t weight = window.weights[k];
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += weight * row[i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    out[i] = static_cast<std::uint8_t>(sums[i] >> kColumnShift);
  }
}

}  // namespace

void resize_bilinear(const ImageView& in, std::int64_t height, std::int64_t width, bool antialias,
                     std::span<std::uint8_t> out) {
  check_arg(in.channels > 0 && in.height > 0 && in.width > 0 && height > 0 && width > 0, "resize",
            "an image is empty: ", in.shape(), " to ", height, "x", width,
            ". Give it at least one pixel");
  const Axis across(in.width, width, antialias, kRowBits);
  const Axis down(in.height, height, antialias, kColumnBits);
  ScaledRows rows(in, width, across, down.largest());
  const auto row_size = static_cast<std::size_t>(width * in.channels);
  std::vector<std::int32_t> sums(row_size);
  for (std::int64_t y = 0; y < height; ++y) {
    const Window window = down.window(y);
    const auto to = out.subspan(static_cast<std::size_t>(y) * row_size, row_size);
    if (window.count == 2) {
      const std::int16_t* above = rows.at(window.first);
      mix_two(above, rows.at(window.first + 1), window.weights, to);
    } else {
      mix_rows(rows, window, sums, to);
    }
  }
}

}  // namespace mezzo::data
