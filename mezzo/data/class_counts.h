// Class frequencies of a data set, and weights that balance them.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The number of images of each class, [num_classes()]. Reads only the labels, where the set stores
// them separately. Throws what Dataset::label() throws.
std::vector<std::int64_t> class_counts(const Dataset& dataset);

// Weights with which all classes count the same in a sum over the data set: images / (classes *
// images of the class), which is 1 for equally frequent classes (King and Zeng, "Logistic
// regression in rare events data", 2001; `balanced` in scikit-learn). For
// CrossEntropyOptions::class_weights. Throws ArgumentError that names a class without images.
std::vector<double> balanced_class_weights(const Dataset& dataset);

}  // namespace mezzo::data
