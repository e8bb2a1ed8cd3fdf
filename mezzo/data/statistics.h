// Statistics of a data set: its number of images per class, their sizes and formats, the means and
// deviations of their channels, and which images cannot be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The spread of heights, or of widths, in pixels.
struct Spread {
  std::int64_t least = 0;
  std::int64_t median = 0;  // the lower of the two middle ones
  std::int64_t most = 0;

  bool operator==(const Spread&) const = default;
};

struct DatasetStatistics {
  std::vector<std::int64_t> class_counts{};  // over all images, [num_classes]
  std::int64_t examined = 0;                 // images from which everything below comes
  Spread heights{};
  Spread widths{};
  std::map<std::string, std::int64_t> formats{};  // images per format; empty if not files
  // Over all pixels, as values from 0 to 1. Normalization accepts it unless a deviation is 0.
  Normalization normalization{};
  std::vector<UnreadableImage> unreadable{};  // among those examined, in order
};

struct StatisticsOptions {
  // The number of images to examine, spread evenly over the set; unset: all.
  std::optional<std::int64_t> limit{};
};

// Reads the images as they are, on all threads; the set should have no transforms. The result is
// the same for any number of threads. Throws ArgumentError if the limit is not positive or a label
// is not a class, and FileError if no examined image can be read.
DatasetStatistics statistics_of(const Dataset& set, const StatisticsOptions& options = {});

// `count` indices out of `size`, or all of them. The set is divided into `count` equal parts, and
// one index is drawn at random from each, always the same ones. With equal distances, a set whose
// classes alternate would show only some of them.
std::vector<std::int64_t> evenly_spread(std::int64_t size, std::int64_t count);

// The normalization as C++: `{.mean = {0.1307F}, .deviation = {0.3081F}}`, to four decimals.
std::string text_of(const Normalization& normalization);

}  // namespace mezzo::data
