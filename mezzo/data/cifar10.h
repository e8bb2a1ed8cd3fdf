// CIFAR-10 in its binary form: records of a label byte and three 32x32 planes of colour.
#pragma once

#include <memory>
#include <string>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The set in `folder`: `train/data_batch_{1..5}.bin` and `test/test_batch.bin`, or all six files
// directly in the folder; training images in file order. Throws FileError `[cifar10] FILE: ...` if
// files are missing, not whole records, or hold labels other than 0 to 9.
std::unique_ptr<Dataset> open_cifar10(const std::string& folder, Split split);

}  // namespace mezzo::data
