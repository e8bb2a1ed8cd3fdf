#include "mezzo/data/pictures.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/math.h"
#include "mezzo/data/dataset.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kPicturesOp = "pictures";
constexpr std::int64_t kLine = 2;     // pixels between the pictures of a sheet
constexpr std::uint8_t kGround = 40;  // their colour

// Maps values back to bytes, in one channel.
class Inverse {
 public:
  explicit Inverse(std::span<const float> numbers) {
    for (std::size_t byte = 0; byte < kByteValues; ++byte) {
      sorted_.emplace_back(numbers[byte], static_cast<std::uint8_t>(byte));
    }
    std::ranges::sort(sorted_);
  }

  std::uint8_t byte_of(float number) const {
    const auto above = std::ranges::lower_bound(sorted_, number, {}, &Entry::first);
    if (above == sorted_.begin()) return above->second;
    const auto below = above - 1;
    if (above == sorted_.end() || number - below->first < above->first - number) {
      return below->second;
    }
    return above->second;
  }

 private:
  using Entry = std::pair<float, std::uint8_t>;
  std::vector<Entry> sorted_;
};

void copy_into(const Image& picture, std::int64_t top, std::int64_t left, Image& sheet) {
  const ImageView from = picture.view();
  const std::int64_t row_bytes = sheet.shape[2] * sheet.shape[0];
  for (std::int64_t y = 0; y < from.height; ++y) {
    std::copy_n(from.row(y), from.width * from.channels,
                sheet.pixels.begin() + (top + y) * row_bytes + left * from.channels);
  }
}

// The mean of a square of pixels in one channel.
std::uint8_t mean_of(const ImageView& square, std::int64_t channel) {
  std::int64_t sum = 0;
  for (std::int64_t y = 0; y < square.height; ++y) {
    for (std::int64_t x = 0; x < square.width; ++x) {
      sum += square.row(y)[x * square.channels + channel];
    }
  }
  const std::int64_t count = square.height * square.width;
  return static_cast<std::uint8_t>((sum + count / 2) / count);
}

}  // namespace

std::vector<Image> pictures_of(const Tensor& images, std::span<const float> numbers,
                               std::int64_t most) {
  check_arg(images.rank() == 4, kPicturesOp, "a batch is [n, c, h, w]: ", images,
            ". Use reshape()");
  const Shape shape{images.shape()[1], images.shape()[2], images.shape()[3]};
  const auto channels = static_cast<std::size_t>(shape[0]);
  check_arg(numbers.size() == channels * kByteValues, kPicturesOp,
            "the table needs 256 numbers for each of ", channels, " channels: got ",
            numbers.size());
  std::vector<Inverse> inverses;
  for (std::size_t c = 0; c < channels; ++c) {
    inverses.emplace_back(numbers.subspan(c * kByteValues, kByteValues));
  }
  const auto count = static_cast<std::size_t>(shape.numel());
  const std::size_t plane = count / std::max<std::size_t>(channels, 1);
  const std::int64_t shown = std::min(images.shape()[0], most);
  std::vector<Image> pictures(static_cast<std::size_t>(shown));
  const Tensor first =
      alias(images, {shown, shape[0], shape[1], shape[2]}, images.strides(), images.offset());
  const std::vector<float> values = first.to_vector<float>();
  for (std::size_t n = 0; n < pictures.size(); ++n) {
    pictures[n].reshape(shape);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t c = i / plane;
      pictures[n].pixels[i % plane * channels + c] = inverses[c].byte_of(values[n * count + i]);
    }
  }
  return pictures;
}

Image shrunk(const Image& image, std::int64_t side) {
  check_arg(side >= 1, kPicturesOp, "a side must have at least one pixel: ", side);
  const std::int64_t block = ceil_div(std::max(image.shape[1], image.shape[2]), side);
  if (block <= 1) return image;
  // If the picture is narrower than a block, the block is the whole side.
  const std::int64_t rows = std::min(block, image.shape[1]);
  const std::int64_t columns = std::min(block, image.shape[2]);
  Image result;
  result.reshape({image.shape[0], image.shape[1] / rows, image.shape[2] / columns});
  auto out = result.pixels.begin();
  for (std::int64_t y = 0; y < result.shape[1]; ++y) {
    for (std::int64_t x = 0; x < result.shape[2]; ++x) {
      const ImageView square = image.view().window(y * rows, x * columns, rows, columns);
      for (std::int64_t c = 0; c < image.shape[0]; ++c) *out++ = mean_of(square, c);
    }
  }
  return result;
}

Image contact_sheet(std::span<const Image> pictures, std::int64_t columns) {
  check_arg(!pictures.empty() && columns >= 1, kPicturesOp,
            "a sheet needs pictures and columns: ", pictures.size(), " and ", columns,
            ". Give at least one of each");
  const Shape shape = pictures.front().shape;
  const auto count = static_cast<std::int64_t>(pictures.size());
  columns = std::min(columns, count);
  const std::int64_t rows = ceil_div(count, columns);
  Image sheet;
  sheet.reshape(
      {shape[0], rows * (shape[1] + kLine) + kLine, columns * (shape[2] + kLine) + kLine});
  std::ranges::fill(sheet.pixels, kGround);
  for (std::int64_t i = 0; i < count; ++i) {
    const Image& picture = pictures[static_cast<std::size_t>(i)];
    check_arg(picture.shape == shape, kPicturesOp, "the pictures differ: ", shape, " and ",
              picture.shape, ". Resize them to one size");
    copy_into(picture, kLine + i / columns * (shape[1] + kLine),
              kLine + i % columns * (shape[2] + kLine), sheet);
  }
  return sheet;
}

}  // namespace mezzo::data
