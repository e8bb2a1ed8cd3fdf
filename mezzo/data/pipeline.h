// Data sets made from data sets: with transformed images, or repeated.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mezzo/data/dataset.h"
#include "mezzo/data/transforms.h"

namespace mezzo::data {

// The images of `source` after `transforms`, in that order. Transforms of values (Rescale,
// Normalize) come last, and replace the source's own normalization: bytes then enter as 0 to 255.
// The DataLoader does the shuffling, batching and prefetching. Throws ArgumentError if a transform
// cannot take what comes before it. Where images differ in size, that is thrown when such an image
// is read.
std::unique_ptr<Dataset> map(std::unique_ptr<Dataset> source, std::vector<Transform> transforms);
// Like map() above, for a source that someone else owns and that outlives the result.
std::unique_ptr<Dataset> map(const Dataset& source, std::vector<Transform> transforms);

// Repeats `source` `times` times. The epoch is that many times as long, and an image is transformed
// differently each time it comes up. Throws ArgumentError unless times >= 1.
std::unique_ptr<Dataset> repeat(std::unique_ptr<Dataset> source, std::int64_t times);
std::unique_ptr<Dataset> repeat(const Dataset& source, std::int64_t times);

}  // namespace mezzo::data
