// Data sets by the names that options use.
#pragma once

#include <memory>
#include <string_view>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The set that `spec` names: `digits`, `shapes`, `mnist:DIR` or `cifar10:DIR`. Throws ArgumentError
// for any other spec, and FileError where the files are not what they should be.
std::unique_ptr<Dataset> open_dataset(std::string_view spec, Split split);

}  // namespace mezzo::data
