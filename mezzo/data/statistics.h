// What a data set holds: how many images of each class, their sizes and formats, the means and
// deviations of their channels, and which cannot be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// Of heights, or of widths, in pixels.
struct Spread {
  std::int64_t least = 0;
  std::int64_t median = 0;  // the lower one of two
  std::int64_t most = 0;

  bool operator==(const Spread&) const = default;
};

struct DatasetStatistics {
  std::vector<std::int64_t> class_counts{};  // of all images, [num_classes]
  std::int64_t examined = 0;                 // of which all below was found
  Spread heights{};
  Spread widths{};
  std::map<std::string, std::int64_t> formats{};  // images of each; empty if they are no files
  // Of all pixels alike, of numbers from 0 to 1; what Normalization takes, unless a deviation is 0.
  Normalization normalization{};
  std::vector<UnreadableImage> unreadable{};  // of those examined, in the order of the set
};

struct StatisticsOptions {
  // Images to examine, spread evenly over the set; all without.
  std::optional<std::int64_t> limit{};
};

// Reads the images as they are, on all threads: the set should have no transforms. The same for any
// number of threads. Throws ArgumentError if the limit is not positive or a label is no class, and
// FileError if no image that is examined can be read.
DatasetStatistics statistics_of(const Dataset& set, const StatisticsOptions& options = {});

// `count` numbers of images, or all of them: of as many parts of a set of that size, one at random
// in each, and the same ones every time. At even distances, a set whose classes take turns would
// show some of them alone.
std::vector<std::int64_t> evenly_spread(std::int64_t size, std::int64_t count);

// The normalization as C++: `{.mean = {0.1307F}, .deviation = {0.3081F}}`, to four decimals.
std::string text_of(const Normalization& normalization);

}  // namespace mezzo::data
