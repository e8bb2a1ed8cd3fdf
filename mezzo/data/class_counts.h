// How often each class occurs in a data set, and weights that make up for it.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The number of images of each class, [num_classes()]. Reads labels alone, where the set has them
// apart from its images. Throws what Dataset::label() throws.
std::vector<std::int64_t> class_counts(const Dataset& dataset);

// The weight of each class that makes all classes count the same in a sum over the data set:
// images / (classes * images of the class), 1 for all where they are equally frequent (King and
// Zeng, "Logistic regression in rare events data", 2001; `balanced` in scikit-learn). For
// CrossEntropyOptions::class_weights. Throws ArgumentError, naming it, for a class without images.
std::vector<double> balanced_class_weights(const Dataset& dataset);

}  // namespace mezzo::data
