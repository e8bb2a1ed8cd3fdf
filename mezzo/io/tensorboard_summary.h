// Encodes the messages of an event file.
//
// Field numbers are those of tensorboard/compat/proto: event.proto, summary.proto, tensor.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mezzo/io/tensorboard.h"

namespace mezzo::io {

inline constexpr std::string_view kTensorboardOp = "tensorboard";  // in error messages

// One record of a file: the length and the data, each followed by its checksum.
std::string frame_event(std::string_view data);

// Whole events, unframed.
std::string version_event(double wall_time);
std::string resume_event(double wall_time, std::int64_t step);
std::string summary_event(double wall_time, std::int64_t step, std::string_view value);

// Values of a summary. They throw ArgumentError as EventWriter's functions do.
std::string scalar_value(std::string_view tag, float value);
std::string histogram_value(std::string_view tag, const Histogram& histogram);
std::string text_value(std::string_view tag, std::string_view text);
std::string image_value(std::string_view tag, std::span<const std::byte> png);

}  // namespace mezzo::io
