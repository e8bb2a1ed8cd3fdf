// Class names of sets whose files hold only numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::data {

// The class names of an MNIST-like set, recognised by its labels in the order of the file. They are
// those of Fashion-MNIST if the labels match its 60,000 or its 10,000 in number and checksum,
// otherwise none. The folder's name would only be a guess, and a part of the set is not recognised.
std::vector<std::string> known_class_names(std::span<const std::uint8_t> labels);

}  // namespace mezzo::data
