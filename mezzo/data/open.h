// Opens data sets by the names that options use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mezzo/data/dataset.h"
#include "mezzo/data/readable.h"
#include "mezzo/data/token_set.h"

namespace mezzo::data {

// The names as help texts show them: of sets of images, of sets of tokens, and of all.
inline constexpr std::string_view kImageSetNames =
    "digits, shapes, mnist:DIR, cifar10:DIR or images:DIR";
inline constexpr std::string_view kTokenSetNames = "text:FILE or tokens:DIR";
inline constexpr std::string_view kDatasetNames =
    "digits, shapes, mnist:DIR, cifar10:DIR, images:DIR, text:FILE or tokens:DIR";

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

// Whether `spec` begins with `text:` or `tokens:`, which name sets of tokens.
bool names_tokens(std::string_view spec);

// Opens the set of tokens that `spec` names: `text:FILE` as open_text() does, or `tokens:DIR` as
// open_token_folder() does (token_file.h). Throws ArgumentError for any other spec, and what these
// throw.
std::unique_ptr<TokenSet> open_tokens(std::string_view spec, Split split,
                                      std::int64_t vocabulary = 0);

// Whether a file with that path belongs to the set, or would if it were created: it lies in the
// folder of `spec` and has the ending of its files, or it is the file of `spec`.
bool is_file_of(std::string_view spec, const std::string& path);

}  // namespace mezzo::data
