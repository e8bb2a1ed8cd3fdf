// The picture that `mezzo data` draws: images of a set as they are stored, and as training sees
// them.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "mezzo/data/image.h"
#include "mezzo/data/open.h"

namespace mezzo::cli {

struct SheetOptions {
  std::int64_t pictures = 32;
  std::int64_t image_size = 0;  // as OpenOptions has it
  std::uint64_t seed = 1;       // of a run, whose first epoch varies images so
  bool is_given = false;        // one of these by the command line
};

// --pictures --image-size --seed
void add_sheet_options(CLI::App& command, SheetOptions& options);
// Throws ArgumentError for numbers that no sheet has.
void check_sheet_options(const SheetOptions& options);

struct Sheet {
  data::Image picture{};
  std::string caption{};  // what is on it
};

// Images spread evenly over the split, each row of stored images above the same ones as they reach
// the network: varied at random in training as in the first epoch of a run with that seed, and
// brought to one size. Where these are the same, each is there once. Up to 12 classes have columns
// of their own, in about as many cells as images are asked for; with more, rows have eight. Images
// that cannot be read leave their cell empty.
Sheet make_sheet(const std::string& spec, data::Split split, const SheetOptions& options);

}  // namespace mezzo::cli
