// Opens data sets by the names that options use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mezzo/data/dataset.h"
#include "mezzo/data/readable.h"

namespace mezzo::data {

// The names as help texts show them.
inline constexpr std::string_view kDatasetNames =
    "digits, shapes, mnist:DIR, cifar10:DIR or images:DIR";

struct OpenOptions {
  // Height and width to which images are resized; 0: the set's own size, and 224 for `images`.
  std::int64_t image_size = 0;
  // Augment training images at random; test images never are.
  bool augment = false;
  // For sets whose images are files of their own. Images to skip are found by reading all of them
  // when the set is opened; see without_unreadable().
  BadImages bad_images = BadImages::kError;
  bool apply_orientation = true;  // for `images`: see DecodeOptions
};

// Opens the set that `spec` names: `digits`, `shapes`, `mnist:DIR`, `cifar10:DIR` or `images:DIR`.
// Images are brought to one size:
//   cifar10   augmented: a random crop from the image with a border of 4 black pixels, and a random
//             flip; then stretched if another size is requested (bilinear, without antialias)
//   images    augmented: RandomResizedCrop and a random flip; otherwise the shorter side is resized
//             to 256/224 of the size, and the centre is cropped. Both follow torchvision's training
//             reference, with antialias
//   others    never augmented; stretched as for cifar10
// Throws ArgumentError for any other spec and unless image_size is from 0 to 4096, and FileError if
// the files are not valid.
std::unique_ptr<Dataset> open_dataset(std::string_view spec, Split split,
                                      const OpenOptions& options = {});

// Opens the same set with its images as stored, in their own sizes; image_size and augment are
// ignored.
std::unique_ptr<Dataset> open_as_stored(std::string_view spec, Split split,
                                        const OpenOptions& options = {});

// Whether a file with that path belongs to the set, or would if it were created: it lies in the
// folder of `spec` and has the ending of its files.
bool is_file_of(std::string_view spec, const std::string& path);

}  // namespace mezzo::data
