// Data sets made from data sets: with their images transformed, and several times over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mezzo/data/dataset.h"
#include "mezzo/data/transforms.h"

namespace mezzo::data {

// The images of `source` after `transforms`, in that order. Those that make numbers (Rescale,
// Normalize) come last, and if there are any they take the place of the source's own normalization:
// bytes then enter as 0 to 255. Shuffling, batches, workers and what is prefetched are the
// DataLoader's. Throws ArgumentError if a transform cannot take what comes before it; where images
// differ in size, when the image that it cannot take is read.
std::unique_ptr<Dataset> map(std::unique_ptr<Dataset> source, std::vector<Transform> transforms);
// The same for a source that stays where it is and outlives the result.
std::unique_ptr<Dataset> map(const Dataset& source, std::vector<Transform> transforms);

// `source` `times` over, one after the other: an epoch that is so many times as long, in which an
// image is transformed anew each time that it comes. Throws ArgumentError unless times >= 1.
std::unique_ptr<Dataset> repeat(std::unique_ptr<Dataset> source, std::int64_t times);
std::unique_ptr<Dataset> repeat(const Dataset& source, std::int64_t times);

}  // namespace mezzo::data
