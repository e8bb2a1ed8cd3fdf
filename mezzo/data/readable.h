// Data sets without their unreadable images.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The treatment of images that cannot be read.
enum class BadImages : std::uint8_t {
  kError,  // the run ends at the first one that it reads
  kSkip,   // they are found and left out when the set is opened
};

// The readable images of `source`, in order. All images are read once now, on all threads, which
// takes as long as reading them in an epoch. The result is a set like any other: the same for any
// number of threads, workers and processes, and after a restart as long as the files do not change.
// A warning counts and names the images left out, and left_out() lists them. If there are none,
// `source` itself is returned. An image that breaks later is still an error. Throws FileError if no
// image can be read, or if a class loses all its images, as if its folder were empty. With
// `allow_empty`, meant for test images, the latter is only a warning.
std::unique_ptr<Dataset> without_unreadable(std::unique_ptr<Dataset> source,
                                            bool allow_empty = false);

// A message without the operation at its beginning: `[images] a.jpg: is cut off` without `[images]
// `.
std::string without_operation(const std::string& message);

// An image for which reading throws a FileError, with the message.
struct Unreadable {
  std::int64_t index = 0;
  UnreadableImage image{};
};
std::vector<Unreadable> unreadable_images(const Dataset& set);

// `3 of 100 images cannot be read: a.jpg (image 3), b.jpg (image 17) and 1 more`.
std::string summary_of(const std::vector<UnreadableImage>& images, std::int64_t of);

}  // namespace mezzo::data
