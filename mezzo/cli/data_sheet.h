// The picture that `mezzo data` draws: images of a set as stored and as training sees them.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "mezzo/data/image.h"
#include "mezzo/data/open.h"

namespace mezzo::cli {

struct SheetOptions {
  std::int64_t pictures = 32;
  std::int64_t image_size = 0;  // as in OpenOptions
  std::uint64_t seed = 1;       // of the run whose first epoch is shown
  bool is_given = false;        // the command line set one of these
};

// --pictures --image-size --seed
void add_sheet_options(CLI::App& command, SheetOptions& options);
// Throws ArgumentError for numbers that are out of range.
void check_sheet_options(const SheetOptions& options);

struct Sheet {
  data::Image picture{};
  std::string caption{};  // describes the contents
};

// Draws images spread evenly over the split. Each row of stored images is above the same images as
// they reach the network: resized, and for training augmented as in the first epoch of a run with
// that seed. If both are the same, each image appears once. Up to 12 classes have columns of their
// own, in about as many cells as pictures were requested; with more classes, rows have eight cells.
// Unreadable images leave their cell empty.
Sheet make_sheet(const std::string& spec, data::Split split, const SheetOptions& options);

}  // namespace mezzo::cli
