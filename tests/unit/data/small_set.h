// A data set of a few small images.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// `size` images of [channels, 2, 3]; byte k of image i is 7 * i + k, its label i mod 10.
inline std::unique_ptr<Dataset> small_set(std::int64_t size, std::int64_t channels = 1) {
  ImageTable table;
  table.image_shape = {channels, 2, 3};
  table.num_classes = 10;
  table.normalization = channels == 1 ? grey_normalization() : cifar10_normalization();
  for (std::int64_t i = 0; i < size; ++i) {
    table.labels.push_back(static_cast<std::uint8_t>(i % 10));
    for (std::int64_t k = 0; k < table.image_shape.numel(); ++k) {
      table.pixels.push_back(static_cast<std::uint8_t>(7 * i + k));
    }
  }
  return std::make_unique<MemoryDataset>(std::move(table));
}

}  // namespace mezzo::data
