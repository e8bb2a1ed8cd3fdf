// Converts batches back to pictures, so that people can see what a network sees.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

// The first images of a batch, at most `most`, as the bytes that they were made from. `numbers`
// holds the value of each byte, at [channel * 256 + byte], as Dataset::numbers() gives it. A value
// between two of these becomes the byte of the nearer one. images: [n, c, h, w] of any
// floating-point dtype. `most` must not be negative. Throws ArgumentError for other ranks and
// unless there are 256 numbers for each channel.
std::vector<Image> pictures_of(const Tensor& images, std::span<const float> numbers,
                               std::int64_t most);

// The picture reduced until its sides are at most `side`. Each square block of pixels becomes its
// mean, and a remainder at the right and the bottom is cut off. Smaller pictures stay as they are.
// Throws ArgumentError unless side >= 1.
Image shrunk(const Image& image, std::int64_t side);

// All pictures in one, in rows from the top left, with a dark line of two pixels around each.
// Throws ArgumentError if there are none, if they differ in shape, or unless columns >= 1.
Image contact_sheet(std::span<const Image> pictures, std::int64_t columns);

}  // namespace mezzo::data
