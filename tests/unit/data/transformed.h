// The result of a transform for an image, or the reason of a refusal.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/data/image.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {

// The result of `transform` with the stream of that seed.
template <class T>
Image transformed(const T& transform, const Image& in, std::uint64_t seed = 0) {
  Image out;
  out.reshape(transform.output_shape(in.shape));
  Generator random(seed);
  transform.apply(in.view(), random, out.pixels);
  return out;
}

template <class T>
std::string refusal(const T& transform, const Shape& shape) {
  return message_of<ArgumentError>([&] { transform.output_shape(shape); });
}

}  // namespace mezzo::data
