// Batches as pictures again: what a network sees, for people to look at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

// The first images of a batch, `most` at the most, as the bytes that they were made of. `numbers`
// is what each byte becomes, at [channel * 256 + byte]: Dataset::numbers(). A number between two of
// these becomes the byte of the nearer one. images: [n, c, h, w] of any floating-point dtype.
// `most` must not be negative. Throws ArgumentError for other ranks and unless there are 256
// numbers for each channel.
std::vector<Image> pictures_of(const Tensor& images, std::span<const float> numbers,
                               std::int64_t most);

// A picture whose sides are at most `side`: blocks of whole pixels become their mean, and what is
// left over at the right and the bottom is cut off. Smaller pictures stay as they are. Throws
// ArgumentError unless side >= 1.
Image shrunk(const Image& image, std::int64_t side);

// All pictures on one, in rows from the top left, with a dark line of two pixels around each.
// Throws ArgumentError if there are none, if they differ in shape, or unless columns >= 1.
Image contact_sheet(std::span<const Image> pictures, std::int64_t columns);

}  // namespace mezzo::data
