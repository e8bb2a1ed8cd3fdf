// Data sets without the images that cannot be read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// What becomes of images that cannot be read.
enum class BadImages : std::uint8_t {
  kError,  // the run ends at the first one that it comes to
  kSkip,   // they are found when the set is opened, and left out
};

// The images of `source` that can be read, in their order. All are read once now, on all threads:
// it takes as long as reading them does in an epoch, and what is left is a set like any other, the
// same for any number of threads, workers and processes, and after a restart as long as the files
// are the same. A warning counts and names those that are left out, and left_out() lists them; the
// set itself is returned if there are none. An image that breaks later is an error all the same.
// Throws FileError if no image can be read, and if a class loses all that it has, as if its folder
// were empty; with `allow_empty`, as for images to test with, that is a warning.
std::unique_ptr<Dataset> without_unreadable(std::unique_ptr<Dataset> source,
                                            bool allow_empty = false);

// What was wrong, without the operation that messages begin with: `[images] a.jpg: is cut off`
// without `[images] `.
std::string without_operation(const std::string& message);

// The images that reading throws a FileError for, with their messages, in the order of the set.
struct Unreadable {
  std::int64_t index = 0;
  UnreadableImage image{};
};
std::vector<Unreadable> unreadable_images(const Dataset& set);

// `3 of 100 images cannot be read: a.jpg (image 3), b.jpg (image 17) and 1 more`.
std::string summary_of(const std::vector<UnreadableImage>& images, std::int64_t of);

}  // namespace mezzo::data
