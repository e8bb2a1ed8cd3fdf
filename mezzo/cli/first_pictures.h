// The pictures of the first batch, for the report and the event files.
#pragma once

#include <vector>

#include "mezzo/data/loader.h"
#include "mezzo/data/pictures.h"

namespace mezzo::cli {

// The first 32 images of a batch, none larger than 112 pixels. That is enough to see what is wrong,
// and less than 1.5 MB whatever the images are.
inline std::vector<data::Image> first_pictures(const data::Batch& batch,
                                               const data::Dataset& dataset) {
  constexpr std::int64_t kMost = 32;
  constexpr std::int64_t kSide = 112;
  std::vector<data::Image> pictures = data::pictures_of(batch.images, dataset.numbers(), kMost);
  for (data::Image& picture : pictures) picture = data::shrunk(picture, kSide);
  return pictures;
}

}  // namespace mezzo::cli
