// Data sets by the names that options use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mezzo/data/dataset.h"
#include "mezzo/data/readable.h"

namespace mezzo::data {

// The names as help texts put them.
inline constexpr std::string_view kDatasetNames =
    "digits, shapes, mnist:DIR, cifar10:DIR or images:DIR";

struct OpenOptions {
  // Height and width that images are brought to; 0: the set's own, and 224 for `images`.
  std::int64_t image_size = 0;
  // Training images are varied at random, a test set's never are.
  bool augment = false;
  // Of sets whose images are files of their own. Skipped ones are found when the set is opened, by
  // reading all: see without_unreadable().
  BadImages bad_images = BadImages::kError;
  bool apply_orientation = true;  // of `images`: see DecodeOptions
};

// The set that `spec` names: `digits`, `shapes`, `mnist:DIR`, `cifar10:DIR` or `images:DIR`, with
// images brought to one size:
//   cifar10   augmented: a random crop with 4 pixels of black around it and a random flip; then, if
//             another size is asked for, stretched to it (bilinear, without antialias)
//   images    augmented: RandomResizedCrop and a random flip; else the shorter side is brought to
//             256/224 of the size and the middle is cut out. Both as torchvision's training
//             reference does it, with antialias
//   others    never augmented; stretched as cifar10 is
// Throws ArgumentError for any other spec and unless image_size is from 0 to 4096, and FileError
// where the files are not what they should be.
std::unique_ptr<Dataset> open_dataset(std::string_view spec, Split split,
                                      const OpenOptions& options = {});

// The same set with its images as they are, in sizes of their own; image_size and augment say
// nothing.
std::unique_ptr<Dataset> open_as_stored(std::string_view spec, Split split,
                                        const OpenOptions& options = {});

// Whether a file of that path is one of the set's, or would become one: it lies in the folder of
// `spec` and ends as its files do.
bool is_file_of(std::string_view spec, const std::string& path);

}  // namespace mezzo::data
