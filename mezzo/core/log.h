// The log: the only place where the library writes. Silent by default, except for warnings.
#pragma once

#include <functional>
#include <string_view>

#include "mezzo/core/error.h"

namespace mezzo::logging {

// Topics that the environment variable MEZZO_LOG switches on by name (comma-separated, or `all`).
enum class Topic : unsigned char {
  kWarning,   // always on: something works, but not as expected
  kDispatch,  // which kernel was refused, and why
  kAmp,       // loss scaling: skipped steps, changes of the scale
  kData,      // data sets and loaders
};

bool is_enabled(Topic topic);

// Receives each line. The default is write_to_standard_error().
using Sink = std::function<void(Topic, std::string_view line)>;
void set_sink(Sink sink);
void write_to_standard_error(Topic topic, std::string_view line);

void write_line(Topic topic, std::string_view line);

template <class... Parts>
void write(Topic topic, const Parts&... parts) {
  if (is_enabled(topic)) write_line(topic, concat(parts...));
}

// Writes a warning the first time it is called with this text.
void warn_once(std::string_view line);

}  // namespace mezzo::logging
