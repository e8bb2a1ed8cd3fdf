#include "mezzo/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/data/draw.h"
#include "mezzo/data/resize.h"

namespace mezzo::data {
namespace {

bool sizes_differ(const Shape& shape) { return shape[1] == 0; }

// The shape of an image with that size and its channels kept.
Shape with_size(std::string_view op, const Shape& input, std::int64_t height, std::int64_t width) {
  check_arg(height > 0 && width > 0, op, "the size must be positive: ", height, "x", width);
  check_arg(height <= kMaxPixels && width <= kMaxPixels / height, op, "too large: ", height, "x",
            width, ". Images have at most ", kMaxPixels, " pixels");
  return {input[0], height, width};
}

void check_fits(std::string_view op, const Shape& input, std::int64_t padding, const Shape& crop) {
  if (sizes_differ(input)) return;
  check_arg(input[1] + 2 * padding >= crop[1] && input[2] + 2 * padding >= crop[2], op,
            "the image is smaller than the crop: ", input[1], "x", input[2], " with ", padding,
            " pixels of padding, and ", crop[1], "x", crop[2], ". Resize it first");
}

// Copies the rectangle at that corner. Where it lies outside the image, it gets `fill`.
void copy_window(const ImageView& in, std::int64_t top, std::int64_t left, const Shape& size,
                 std::uint8_t fill, std::span<std::uint8_t> out) {
  const std::int64_t row_bytes = size[2] * in.channels;
  const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, size[2]);
  const std::int64_t end = std::clamp<std::int64_t>(in.width - left, begin, size[2]);
  for (std::int64_t y = 0; y < size[1]; ++y) {
    std::uint8_t* to = out.data() + y * row_bytes;
    const std::int64_t from_y = top + y;
    if (from_y < 0 || from_y >= in.height || begin == end) {
      std::fill_n(to, row_bytes, fill);
      continue;
    }
    const std::uint8_t* from = in.row(from_y) + (left + begin) * in.channels;
    to = std::fill_n(to, begin * in.channels, fill);
    to = std::copy_n(from, (end - begin) * in.channels, to);
    std::fill_n(to, (size[2] - end) * in.channels, fill);
  }
}

// The largest central rectangle with a proportion that `crop` allows.
ImageView central_part(const RandomResizedCrop& crop, const ImageView& in) {
  const double ratio = static_cast<double>(in.width) / static_cast<double>(in.height);
  std::int64_t rows = in.height;
  std::int64_t columns = in.width;
  if (ratio < crop.min_ratio) {
    rows = std::llround(static_cast<double>(columns) / crop.min_ratio);
  } else if (ratio > crop.max_ratio) {
    columns = std::llround(static_cast<double>(rows) * crop.max_ratio);
  }
  rows = std::clamp<std::int64_t>(rows, 1, in.height);
  columns = std::clamp<std::int64_t>(columns, 1, in.width);
  return in.window((in.height - rows) / 2, (in.width - columns) / 2, rows, columns);
}

ImageView random_part(const RandomResizedCrop& crop, const ImageView& in, Generator& random) {
  constexpr int kTries = 10;
  const auto area = static_cast<double>(in.height * in.width);
  for (int i = 0; i < kTries; ++i) {
    const double part = area * uniform_in(random, crop.min_area, crop.max_area);
    const double ratio =
        std::exp(uniform_in(random, std::log(crop.min_ratio), std::log(crop.max_ratio)));
    const std::int64_t columns = std::llround(std::sqrt(part * ratio));
    const std::int64_t rows = std::llround(std::sqrt(part / ratio));
    if (columns < 1 || columns > in.width || rows < 1 || rows > in.height) continue;
    const std::int64_t top = below(random, in.height - rows + 1);
    const std::int64_t left = below(random, in.width - columns + 1);
    return in.window(top, left, rows, columns);
  }
  return central_part(crop, in);
}

}  // namespace

Shape RandomCrop::output_shape(const Shape& input) const {
  constexpr std::string_view kOp = "random_crop";
  Shape output = with_size(kOp, input, height, width);
  check_arg(padding >= 0 && padding <= kMaxPixels, kOp,
            "the padding must not be negative or above ", kMaxPixels, ": ", padding);
  check_fits(kOp, input, padding, output);
  return output;
}

void RandomCrop::apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const {
  const std::int64_t top = below(random, in.height + 2 * padding - height + 1) - padding;
  const std::int64_t left = below(random, in.width + 2 * padding - width + 1) - padding;
  copy_window(in, top, left, {in.channels, height, width}, fill, out);
}

Shape RandomHorizontalFlip::output_shape(const Shape& input) const {
  check_probability("random_horizontal_flip", probability);
  return input;
}

void RandomHorizontalFlip::apply(const ImageView& in, Generator& random,
                                 std::span<std::uint8_t> out) const {
  if (!happens(random, probability)) {
    copy_window(in, 0, 0, in.shape(), 0, out);
    return;
  }
  std::uint8_t* to = out.data();
  for (std::int64_t y = 0; y < in.height; ++y) {
    const std::uint8_t* row = in.row(y);
    for (std::int64_t x = in.width - 1; x >= 0; --x) {
      to = std::copy_n(row + x * in.channels, in.channels, to);
    }
  }
}

Shape Resize::output_shape(const Shape& input) const {
  return with_size("resize", input, height, width);
}

void Resize::apply(const ImageView& in, Generator& /*random*/, std::span<std::uint8_t> out) const {
  resize_bilinear(in, height, width, antialias, out);
}

Shape ResizeShortSide::output_shape(const Shape& input) const {
  constexpr std::string_view kOp = "resize_short_side";
  const Shape square = with_size(kOp, input, size, size);
  if (sizes_differ(input)) return input;
  const std::int64_t shorter = std::min(input[1], input[2]);
  return with_size(kOp, square, size * input[1] / shorter, size * input[2] / shorter);
}

void ResizeShortSide::apply(const ImageView& in, Generator& /*random*/,
                            std::span<std::uint8_t> out) const {
  const Shape output = output_shape(in.shape());
  resize_bilinear(in, output[1], output[2], antialias, out);
}

Shape CenterCrop::output_shape(const Shape& input) const {
  constexpr std::string_view kOp = "center_crop";
  Shape output = with_size(kOp, input, height, width);
  check_fits(kOp, input, 0, output);
  return output;
}

namespace {

// Half of the remainder, rounded to even as in torchvision.
std::int64_t half_to_even(std::int64_t rest) { return rest / 2 + (rest % 4 == 3 ? 1 : 0); }

}  // namespace

void CenterCrop::apply(const ImageView& in, Generator& /*random*/,
                       std::span<std::uint8_t> out) const {
  copy_window(in, half_to_even(in.height - height), half_to_even(in.width - width),
              {in.channels, height, width}, 0, out);
}

Shape RandomResizedCrop::output_shape(const Shape& input) const {
  constexpr std::string_view kOp = "random_resized_crop";
  check_arg(min_area > 0 && min_area <= max_area && max_area <= 1, kOp,
            "the areas must be in (0, 1], the lower one first: ", min_area, " and ", max_area);
  check_arg(min_ratio > 0 && min_ratio <= max_ratio && std::isfinite(max_ratio), kOp,
            "the ratios must be positive, the lower one first: ", min_ratio, " and ", max_ratio);
  return with_size(kOp, input, height, width);
}

void RandomResizedCrop::apply(const ImageView& in, Generator& random,
                              std::span<std::uint8_t> out) const {
  resize_bilinear(random_part(*this, in, random), height, width, antialias, out);
}

void Rescale::check(std::int64_t /*channels*/) const {
  check_arg(std::isfinite(scale) && std::isfinite(shift), "rescale",
            "scale and shift must be finite: ", scale, " and ", shift);
}

float Rescale::value(float value, std::size_t /*channel*/) const { return value * scale + shift; }

void Normalize::check(std::int64_t channels) const {
  constexpr std::string_view kOp = "normalize";
  const auto count = static_cast<std::size_t>(channels);
  check_arg(mean.size() == count && deviation.size() == count, kOp,
            "needs a mean and a deviation for each of ", count, " channels: got ", mean.size(),
            " and ", deviation.size());
  for (std::size_t c = 0; c < count; ++c) {
    check_arg(std::isfinite(mean[c]), kOp, "the mean of a channel must be finite: ", mean[c]);
    check_arg(deviation[c] > 0 && std::isfinite(deviation[c]), kOp,
              "the deviation of a channel must be positive: ", deviation[c]);
  }
}

float Normalize::value(float value, std::size_t channel) const {
  return (value - mean[channel]) / deviation[channel];
}

}  // namespace mezzo::data
