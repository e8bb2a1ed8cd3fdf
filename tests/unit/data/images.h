// Images for tests.
#pragma once

#include <memory>
#include <utility>

#include "mezzo/core/random.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/image.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::data {

// Random bytes.
inline Image random_image(const Shape& shape, std::uint64_t seed) {
  Image image;
  image.reshape(shape);
  Generator random(seed);
  for (std::uint8_t& pixel : image.pixels) pixel = static_cast<std::uint8_t>(random.next());
  return image;
}

inline std::uint8_t at(const Image& image, std::int64_t channel, std::int64_t y, std::int64_t x) {
  return image
      .pixels[static_cast<std::size_t>((y * image.shape[2] + x) * image.shape[0] + channel)];
}

// `size` random images of that shape and ten classes, with CIFAR-10's or the grey normalisation.
inline std::unique_ptr<Dataset> random_set(std::int64_t size, const Shape& shape) {
  ImageTable table;
  table.image_shape = shape;
  table.num_classes = 10;
  table.normalization = shape[0] == 1 ? grey_normalization() : cifar10_normalization();
  table.pixels = random_image({shape[0], size * shape[1], shape[2]}, 99).pixels;
  for (std::int64_t i = 0; i < size; ++i) table.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return std::make_unique<MemoryDataset>(std::move(table));
}

}  // namespace mezzo::data
