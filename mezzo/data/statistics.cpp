#include "mezzo/data/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/data/draw.h"
#include "mezzo/data/readable.h"
#include "mezzo/data/stream.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kStatisticsOp = "data";

// Sums of bytes. They are integers, so that the order in which threads add them does not matter:
// 2^64 holds the squares of 2.8e14 bytes.
struct ChannelSums {
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
};

// The findings for some of the images.
struct Findings {
  std::vector<std::int64_t> heights;
  std::vector<std::int64_t> widths;
  std::map<std::string, std::int64_t> formats;
  std::vector<ChannelSums> channels;
  std::uint64_t pixels = 0;
  std::vector<Unreadable> unreadable;

  explicit Findings(std::size_t channel_count) : channels(channel_count) {}

  void add(const Image& image, const std::string& format) {
    heights.push_back(image.shape[1]);
    widths.push_back(image.shape[2]);
    if (!format.empty()) ++formats[format];
    for (std::size_t i = 0; i < image.pixels.size(); i += channels.size()) {
      for (std::size_t c = 0; c < channels.size(); ++c) {
        const std::uint64_t byte = image.pixels[i + c];
        channels[c].sum += byte;
        channels[c].squares += byte * byte;
      }
    }
    pixels += image.pixels.size() / channels.size();
  }

  void add(Findings&& other) {
    heights.insert(heights.end(), other.heights.begin(), other.heights.end());
    widths.insert(widths.end(), other.widths.begin(), other.widths.end());
    for (const auto& [format, count] : other.formats) formats[format] += count;
    for (std::size_t c = 0; c < channels.size(); ++c) {
      channels[c].sum += other.channels[c].sum;
      channels[c].squares += other.channels[c].squares;
    }
    pixels += other.pixels;
    std::ranges::move(other.unreadable, std::back_inserter(unreadable));
  }
};

void examine(const Dataset& set, std::int64_t index, Findings& found) {
  try {
    Generator random;
    Image image;
    set.read_image(index, random, image);
    found.add(image, set.format(index));
  } catch (const FileError& error) {
    found.unreadable.push_back({index, {set.describe(index), error.what()}});
  }
}

Spread spread_of(std::vector<std::int64_t> sizes) {
  std::ranges::sort(sizes);
  return {sizes.front(), sizes[(sizes.size() - 1) / 2], sizes.back()};
}

// In f64: the difference of two nearly equal sums keeps 12 digits of a typical deviation, where f32
// would keep four.
Normalization normalization_of(const Findings& found) {
  constexpr double kMostOfByte = 255;
  const auto count = static_cast<double>(found.pixels);
  Normalization normalization;
  for (const ChannelSums& channel : found.channels) {
    const double mean = static_cast<double>(channel.sum) / count;
    const double variance = static_cast<double>(channel.squares) / count - mean * mean;
    normalization.mean.push_back(static_cast<float>(mean / kMostOfByte));
    normalization.deviation.push_back(
        static_cast<float>(std::sqrt(std::max(variance, 0.0)) / kMostOfByte));
  }
  return normalization;
}

std::vector<std::int64_t> count_classes(const Dataset& set) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(set.num_classes()));
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const std::int64_t label = set.label(i);
    check_arg(label >= 0 && label < set.num_classes(), kStatisticsOp, "the label of ",
              set.describe(i), " is ", label, ", and there are ", set.num_classes(), " classes");
    ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

}  // namespace

std::vector<std::int64_t> evenly_spread(std::int64_t size, std::int64_t count) {
  count = std::min(size, count);
  // The beginning of part i: i * size / count, without a product that might overflow.
  const auto begin_of = [&](std::int64_t i) {
    return i * (size / count) + i * (size % count) / count;
  };
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    Generator random = stream_of(0, 0, static_cast<std::uint64_t>(i));
    indices.push_back(begin_of(i) + below(random, begin_of(i + 1) - begin_of(i)));
  }
  return indices;
}

DatasetStatistics statistics_of(const Dataset& set, const StatisticsOptions& options) {
  check_arg(options.limit.value_or(1) >= 1, kStatisticsOp,
            "the limit must be at least 1: ", options.limit.value_or(1));
  const std::vector<std::int64_t> indices =
      evenly_spread(set.size(), options.limit.value_or(set.size()));
  const auto channels = static_cast<std::size_t>(set.image_shape()[0]);
  Findings all(channels);
  std::mutex mutex;
  parallel_for(std::ssize(indices), 1, [&](std::int64_t begin, std::int64_t end) {
    Findings some(channels);
    for (std::int64_t i = begin; i < end; ++i) {
      examine(set, indices[static_cast<std::size_t>(i)], some);
    }
    const std::lock_guard lock(mutex);
    all.add(std::move(some));
  });
  std::ranges::sort(all.unreadable, {}, &Unreadable::index);
  if (all.heights.empty()) {
    fail<FileError>(kStatisticsOp, "none of ", indices.size(),
                    " images can be read. The first one is ",
                    without_operation(all.unreadable.front().image.why));
  }
  DatasetStatistics result{.class_counts = count_classes(set),
                           .examined = std::ssize(indices),
                           .heights = spread_of(all.heights),
                           .widths = spread_of(all.widths),
                           .formats = all.formats,
                           .normalization = normalization_of(all)};
  for (Unreadable& image : all.unreadable) result.unreadable.push_back(std::move(image.image));
  return result;
}

std::string text_of(const Normalization& normalization) {
  const auto list = [](const std::vector<float>& numbers) {
    std::string text;
    for (const float number : numbers) {
      char buffer[64];
      std::snprintf(buffer, sizeof(buffer), "%.4fF", static_cast<double>(number));
      text += (text.empty() ? "" : ", ") + std::string(buffer);
    }
    return text;
  };
  return concat("{.mean = {", list(normalization.mean), "}, .deviation = {",
                list(normalization.deviation), "}}");
}

}  // namespace mezzo::data
