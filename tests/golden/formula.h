// The weights, images and labels of tests/golden/networks.py, to the last bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "mezzo/nn/module.h"

namespace mezzo::golden {

// Number streams: state entry i uses stream i, batch i uses kImages + i and kLabels + i.
inline constexpr std::uint32_t kImages = 1U << 20;
inline constexpr std::uint32_t kLabels = 1U << 21;

// Number i of a stream: the finalizer of MurmurHash3 over a counter.
inline std::uint32_t hashed(std::uint32_t stream, std::uint32_t i) {
  std::uint32_t x = i + stream * 0x9E3779B9U;
  x = (x ^ (x >> 16)) * 0x85EBCA6BU;
  x = (x ^ (x >> 13)) * 0xC2B2AE35U;
  return x ^ (x >> 16);
}

// Number i of a stream in [-1, 1): a multiple of 2^-23, which f32 represents exactly.
inline float unit(std::uint32_t stream, std::uint32_t i) {
  return static_cast<float>(static_cast<std::int32_t>(hashed(stream, i) >> 8) - (1 << 23)) *
         0x1p-23F;
}

// Fills state entry number `stream`, which must be f32, in row-major order.
inline void fill_entry(const NamedTensor& entry, std::uint32_t stream) {
  const Shape& shape = entry.tensor.shape();
  const std::string_view name = entry.name;
  float center = 0;
  float scale = 0.125F;
  if (shape.rank() > 1) {
    const std::int64_t fan_in = shape.numel() / shape[0];
    scale = static_cast<float>(std::sqrt(6.0 / static_cast<double>(fan_in)));
  } else if (name.ends_with("bn2.weight") || name.ends_with("bn3.weight")) {
    center = 0.25F;
    scale = 0.0625F;
  } else if (name.ends_with("weight") || name.ends_with("running_var")) {
    center = 1;
    scale = 0.25F;
  }
  const Tensor values = empty(shape);
  auto* value = values.mutable_data<float>();
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    // Rounded once, with or without FMA: the product is exact wherever something is added to it.
    value[i] = center + unit(stream, static_cast<std::uint32_t>(i)) * scale;
  }
  copy_elements(values, entry.tensor);
}

// Sets every parameter and statistic of a network; batch counts stay 0.
inline void fill(nn::Module& net) {
  for (std::uint32_t stream = 0; const NamedTensor& entry : net.state()) {
    if (is_floating(entry.tensor.dtype())) fill_entry(entry, stream);
    ++stream;
  }
}

struct Batch {
  Tensor images;  // [size, channels, pixels, pixels]
  Tensor labels;  // [size]
};

// Images made of 4 x 4 squares, `shape` [n, c, 4 * side, 4 * side].
inline Tensor make_images(std::uint32_t number, const Shape& shape) {
  Tensor images = empty(shape);
  auto* pixel = images.mutable_data<float>();
  const std::int64_t side = shape[3] / 4;
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    const std::int64_t column = i % shape[3] / side;
    const std::int64_t row = i / shape[3] % shape[2] / side;
    const std::int64_t plane = i / (shape[2] * shape[3]);
    pixel[i] = unit(kImages + number, static_cast<std::uint32_t>((plane * 4 + row) * 4 + column));
  }
  return images;
}

inline Batch make_batch(std::uint32_t number, const Shape& images, std::int64_t classes) {
  Batch batch{make_images(number, images), empty({images[0]}, DType::kI64)};
  auto* label = batch.labels.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < images[0]; ++i) {
    label[i] = hashed(kLabels + number, static_cast<std::uint32_t>(i)) % classes;
  }
  return batch;
}

}  // namespace mezzo::golden
