#include "mezzo/data/dataset.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/transforms.h"

namespace mezzo::data {

Normalization grey_normalization() { return {.mean = {0.1307F}, .deviation = {0.3081F}}; }

Normalization cifar10_normalization() {
  return {.mean = {0.4914F, 0.4822F, 0.4465F}, .deviation = {0.2023F, 0.1994F, 0.2010F}};
}

Normalization imagenet_normalization() {
  return {.mean = {0.485F, 0.456F, 0.406F}, .deviation = {0.229F, 0.224F, 0.225F}};
}

std::vector<float> numbers_of(const Normalization& normalization, std::int64_t channels) {
  const Normalize normalize{normalization.mean, normalization.deviation};
  normalize.check(channels);
  std::vector<float> numbers;
  numbers.reserve(static_cast<std::size_t>(channels) * kByteValues);
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    for (int byte = 0; byte < kByteValues; ++byte) {
      numbers.push_back(normalize.value(static_cast<float>(byte) / 255.0F, c));
    }
  }
  return numbers;
}

std::vector<float> Dataset::numbers() const {
  return numbers_of(normalization(), image_shape()[0]);
}

std::int64_t Dataset::read_image(std::int64_t index, Generator& random, Image& image) const {
  image.reshape(image_shape());
  return read(index, random, image.pixels);
}

std::int64_t Dataset::label(std::int64_t index) const {
  Generator unused(0);
  Image image;
  return read_image(index, unused, image);
}

std::string Dataset::describe(std::int64_t index) const { return concat("image ", index); }

MemoryDataset::MemoryDataset(ImageTable table) : table_(std::move(table)) {
  check_arg(!table_.labels.empty(), "dataset", "there are no images. Give at least one");
  check_arg(table_.image_shape.rank() == 3, "dataset",
            "the image shape must be [c, h, w]: ", table_.image_shape);
  const auto channels = static_cast<std::size_t>(table_.image_shape[0]);
  check_arg(table_.normalization.mean.size() == channels &&
                table_.normalization.deviation.size() == channels,
            "dataset", "the normalization needs a mean and a deviation for each of ", channels,
            " channels: got ", table_.normalization.mean.size(), " and ",
            table_.normalization.deviation.size());
  check_arg(table_.class_names.empty() || std::ssize(table_.class_names) == table_.num_classes,
            "dataset", table_.class_names.size(), " names for ", table_.num_classes,
            " classes. Give one for each class");
  const auto bytes = table_.labels.size() * static_cast<std::size_t>(table_.image_shape.numel());
  check_arg(table_.pixels.size() == bytes, "dataset", table_.labels.size(), " images of ",
            table_.image_shape, " need ", bytes, " bytes: got ", table_.pixels.size());
  const auto wrong = std::ranges::find_if(
      table_.labels, [this](std::uint8_t label) { return label >= table_.num_classes; });
  check_arg(wrong == table_.labels.end(), "dataset",
            "a label is out of range: ", wrong == table_.labels.end() ? 0 : *wrong, " with ",
            table_.num_classes, " classes. Classes count from 0");
}

std::int64_t MemoryDataset::read(std::int64_t index, Generator& /*random*/,
                                 std::span<std::uint8_t> pixels) const {
  const auto count = static_cast<std::size_t>(table_.image_shape.numel());
  const auto first = static_cast<std::size_t>(index);
  std::copy_n(table_.pixels.begin() + static_cast<std::ptrdiff_t>(first * count), count,
              pixels.begin());
  return table_.labels[first];
}

std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(dataset.size()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    labels[static_cast<std::size_t>(i)] = dataset.label(i);
  }
  return labels;
}

}  // namespace mezzo::data
