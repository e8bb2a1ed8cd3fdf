// Names of classes of sets whose files hold numbers alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::data {

// What the classes of an MNIST-like set are called, told by its labels, in the order of the file:
// Fashion-MNIST's, if these are its 60,000 or its 10,000, by number and checksum; else none. A
// folder's name would be a guess, and a part of the set is not known to be one.
std::vector<std::string> known_class_names(std::span<const std::uint8_t> labels);

}  // namespace mezzo::data
