#include "mezzo/io/tensorboard_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/io/crc32c.h"
#include "mezzo/io/protobuf.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

// Checksums are stored masked, because a CRC over data that contains CRCs is problematic.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

void check_utf8(std::string_view text, std::string_view what) {
  check_arg(find_invalid_utf8(text) == std::string_view::npos, kTensorboardOp, what,
            " is not UTF-8. Encode it first");
}

// A value that so far has only its tag, which every value begins with.
ProtoMessage tagged(std::string_view tag) {
  check_arg(!tag.empty(), kTensorboardOp, "the tag is empty. Give the value a name");
  check_utf8(tag, "the tag");
  return ProtoMessage().text(1, tag);
}

// An event with its time and step; readers treat missing fields as zero.
ProtoMessage event(double wall_time, std::int64_t step) {
  ProtoMessage message;
  message.number(1, wall_time);
  if (step != 0) message.integer(2, step);
  return message;
}

struct PngHeader {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int channels = 0;
};

std::uint32_t big_endian_at(std::span<const std::byte> bytes, std::size_t place) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes.subspan(place, 4)) {
    value = value << 8 | std::to_integer<std::uint32_t>(byte);
  }
  return value;
}

// The number of channels for a PNG colour type; 0 for an invalid one. Palettes hold colours.
int channels_of(int color_type) {
  switch (color_type) {
    case 0: return 1;
    case 2:
    case 3: return 3;
    case 4: return 2;
    case 6: return 4;
    default: return 0;
  }
}

PngHeader parse_png_header(std::span<const std::byte> png) {
  // The signature, then the length and the name of the first chunk.
  constexpr std::array<unsigned char, 16> kStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
                                                    0,    0,   0,   13,  'I',  'H',  'D',  'R'};
  constexpr std::size_t kColorType = kStart.size() + 9;
  PngHeader header;
  if (png.size() > kColorType && std::memcmp(png.data(), kStart.data(), kStart.size()) == 0) {
    header.width = big_endian_at(png, kStart.size());
    header.height = big_endian_at(png, kStart.size() + 4);
    header.channels = channels_of(std::to_integer<int>(png[kColorType]));
  }
  check_arg(header.width > 0 && header.height > 0 && header.channels > 0, kTensorboardOp,
            "the image is not a PNG file: ", png.size(),
            " bytes that do not start with its signature. Give the bytes of a PNG file");
  return header;
}

void check_histogram(const Histogram& histogram) {
  check_arg(histogram.limits.size() == histogram.counts.size() && !histogram.limits.empty(),
            kTensorboardOp, "the histogram has ", histogram.limits.size(), " limits and ",
            histogram.counts.size(), " counts. Give each bucket one of each");
  const auto is_nan = [](double limit) { return std::isnan(limit); };
  check_arg(std::ranges::none_of(histogram.limits, is_nan), kTensorboardOp,
            "a limit of the histogram is NaN. Leave its bucket out");
  const auto does_not_rise = [](double limit, double next) { return !(next > limit); };
  check_arg(std::ranges::adjacent_find(histogram.limits, does_not_rise) == histogram.limits.end(),
            kTensorboardOp, "the limits of the histogram do not increase. Sort its buckets");
  check_arg(std::ranges::all_of(histogram.counts, [](double count) { return count >= 0; }),
            kTensorboardOp,
            "the histogram has a count that is negative or NaN. Counts must be 0 or more");
}

// The upper ends of all buckets, rising.
std::vector<double> make_limits() {
  std::vector<double> positive;
  double limit = 1e-12;
  while (limit < 1e20) {
    positive.push_back(limit);
    limit *= 1.1;
  }
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  for (auto bound = positive.rbegin(); bound != positive.rend(); ++bound) {
    limits.push_back(-*bound);
  }
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

// Stores the buckets from the first to the last non-empty one in `histogram`. Of consecutive empty
// buckets only the last is needed.
void set_buckets(Histogram& histogram, const std::vector<double>& limits,
                 const std::vector<double>& counts) {
  const auto is_full = [](double count) { return count > 0; };
  const auto first = std::ranges::find_if(counts, is_full) - counts.begin();
  const auto last = std::find_if(counts.rbegin(), counts.rend(), is_full).base() - counts.begin();
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
    const bool repeats_empty =
        !histogram.counts.empty() && histogram.counts.back() == 0 && counts[i] == 0;
    if (repeats_empty) {
      histogram.limits.back() = limits[i];
    } else {
      histogram.limits.push_back(limits[i]);
      histogram.counts.push_back(counts[i]);
    }
  }
}

}  // namespace

std::string frame_event(std::string_view data) {
  std::string record;
  append_raw(record, std::uint64_t{data.size()});
  append_raw(record, masked_crc(record));
  record += data;
  append_raw(record, masked_crc(data));
  return record;
}

std::string version_event(double wall_time) {
  return event(wall_time, 0).text(3, "brain.Event:2").bytes();
}

std::string resume_event(double wall_time, std::int64_t step) {
  // SessionLog: status = START. TensorBoard then drops what it has from that step on.
  return event(wall_time, step).message(7, ProtoMessage().integer(1, 1)).bytes();
}

std::string summary_event(double wall_time, std::int64_t step, std::string_view value) {
  return event(wall_time, step).message(5, ProtoMessage().text(1, value)).bytes();
}

std::string scalar_value(std::string_view tag, float value) {
  return tagged(tag).number(2, value).bytes();
}

std::string histogram_value(std::string_view tag, const Histogram& histogram) {
  check_histogram(histogram);
  const ProtoMessage message = ProtoMessage()
                                   .number(1, histogram.min)
                                   .number(2, histogram.max)
                                   .number(3, histogram.num)
                                   .number(4, histogram.sum)
                                   .number(5, histogram.sum_squares)
                                   .numbers(6, histogram.limits)
                                   .numbers(7, histogram.counts);
  return tagged(tag).message(5, message).bytes();
}

std::string text_value(std::string_view tag, std::string_view text) {
  check_utf8(text, "the text");
  constexpr std::int64_t kStringType = 7;
  constexpr std::int64_t kTensorData = 2;
  const ProtoMessage shape = ProtoMessage().message(2, ProtoMessage().integer(1, 1));
  const ProtoMessage tensor =
      ProtoMessage().integer(1, kStringType).message(2, shape).text(8, text);
  const ProtoMessage metadata =
      ProtoMessage().message(1, ProtoMessage().text(1, "text")).integer(4, kTensorData);
  return tagged(tag).message(8, tensor).message(9, metadata).bytes();
}

std::string image_value(std::string_view tag, std::span<const std::byte> png) {
  const PngHeader header = parse_png_header(png);
  const std::string_view bytes(reinterpret_cast<const char*>(png.data()), png.size());
  const ProtoMessage image = ProtoMessage()
                                 .integer(1, header.height)
                                 .integer(2, header.width)
                                 .integer(3, header.channels)
                                 .text(4, bytes);
  return tagged(tag).message(4, image).bytes();
}

Histogram histogram_of(const Tensor& tensor) {
  static const std::vector<double> kLimits = make_limits();
  std::vector<double> counts(kLimits.size(), 0);
  Histogram histogram;
  for (const double value : tensor.to_vector<double>()) {
    if (!std::isfinite(value)) continue;
    histogram.min = histogram.num == 0 ? value : std::min(histogram.min, value);
    histogram.max = histogram.num == 0 ? value : std::max(histogram.max, value);
    histogram.num += 1;
    histogram.sum += value;
    histogram.sum_squares += value * value;
    const auto bucket = std::ranges::lower_bound(kLimits, value) - kLimits.begin();
    counts[static_cast<std::size_t>(bucket)] += 1;
  }
  set_buckets(histogram, kLimits, counts);
  if (histogram.limits.empty()) {
    histogram.limits.push_back(kLimits.back());
    histogram.counts.push_back(0);
  }
  return histogram;
}

}  // namespace mezzo::io
