// CIFAR-10 in its binary format: records of a label byte and three 32x32 colour planes.
#pragma once

#include <memory>
#include <string>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// Opens the set in `folder`: `train/data_batch_{1..5}.bin` and `test/test_batch.bin`, or all six
// files directly in the folder. Training images keep the order of the files. Throws FileError
// `[cifar10] FILE: ...` if files are missing, are not whole records, or hold labels other than 0 to
// 9.
std::unique_ptr<Dataset> open_cifar10(const std::string& folder, Split split);

}  // namespace mezzo::data
