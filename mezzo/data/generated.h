// Helpers of the generated sets, where every image is a function of its split and index alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mezzo/core/parallel.h"
#include "mezzo/core/random.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/stream.h"

namespace mezzo::data {

// The label of a generated image: classes alternate, so that every prefix of the set is balanced.
inline std::int64_t generated_label(std::int64_t index, std::int64_t classes) {
  return index % classes;
}

// The stream that image `index` is drawn from. Train and test have separate streams.
inline Generator image_stream(std::uint64_t set_seed, Split split, std::int64_t index) {
  return stream_of(set_seed, static_cast<std::uint64_t>(split), static_cast<std::uint64_t>(index));
}

// Uniform in [low, high).
inline float draw(Generator& random, float low, float high) {
  return low + (high - low) * random.uniform();
}

// Random bytes from the stream of `random`, separate from its other output. A Philox block gives
// sixteen bytes, so a byte costs an eighth of a call of next().
void fill_noise(const Generator& random, std::span<std::uint8_t> out);

// Draws images 0 to size - 1 of a set into memory with draw_image(split, index, pixels), in
// parallel. `table` must be complete except for images and labels.
template <class DrawImage>
std::unique_ptr<Dataset> generate(ImageTable table, Split split, std::int64_t size,
                                  DrawImage draw_image) {
  constexpr std::int64_t kGrain = 64;
  const auto count = static_cast<std::size_t>(table.image_shape.numel());
  table.pixels.resize(static_cast<std::size_t>(size) * count);
  table.labels.resize(static_cast<std::size_t>(size));
  parallel_for(size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto place = static_cast<std::size_t>(i);
      draw_image(split, i, std::span(table.pixels).subspan(place * count, count));
      table.labels[place] = static_cast<std::uint8_t>(generated_label(i, table.num_classes));
    }
  });
  return std::make_unique<MemoryDataset>(std::move(table));
}

}  // namespace mezzo::data
