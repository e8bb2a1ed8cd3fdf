#include "mezzo/core/log.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace mezzo::logging {
namespace {

constexpr std::string_view name_of(Topic topic) {
  switch (topic) {
    case Topic::kWarning: return "warning";
    case Topic::kDispatch: return "dispatch";
    case Topic::kAmp: return "amp";
    case Topic::kData: return "data";
  }
  return "";
}

constexpr Topic kOnDemand[] = {Topic::kDispatch, Topic::kAmp, Topic::kData};

unsigned bit_of(Topic topic) { return 1U << static_cast<unsigned>(topic); }

// The topics that a word of MEZZO_LOG switches on; none for an unknown word.
unsigned topics_of(std::string_view word) {
  unsigned mask = 0;
  for (const Topic topic : kOnDemand) {
    if (word == name_of(topic) || word == "all") mask |= bit_of(topic);
  }
  return mask;
}

void warn_of_unknown_topic(std::string_view word) {
  std::string line = "[MEZZO_LOG] unknown topic: `" + std::string(word) + "`. Use ";
  for (const Topic topic : kOnDemand) line += std::string(name_of(topic)) + ", ";
  warn_once(line + "or all for every one.");
}

unsigned enabled_topics() {
  unsigned mask = bit_of(Topic::kWarning);
  const char* environment = std::getenv("MEZZO_LOG");  // NOLINT(concurrency-mt-unsafe)
  std::string_view rest = environment != nullptr ? environment : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const unsigned topics = topics_of(word);
    if (topics == 0 && !word.empty()) warn_of_unknown_topic(word);
    mask |= topics;
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return mask;
}

// The line without control characters, which names from files and the environment may hold.
std::string without_controls(std::string_view line) {
  std::string text(line);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text;
}

struct State {
  std::mutex mutex;
  Sink sink;
  std::set<std::string, std::less<>> warned;
};

State& state() {
  static State state;
  return state;
}

}  // namespace

bool is_enabled(Topic topic) {
  static const unsigned kMask = enabled_topics();
  return (kMask & bit_of(topic)) != 0;
}

void set_sink(Sink sink) {
  const std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

void write_line(Topic topic, std::string_view line) {
  const std::lock_guard lock(state().mutex);
  state().sink ? state().sink(topic, line) : write_to_standard_error(topic, line);
}

void write_to_standard_error(Topic topic, std::string_view line) {
  const std::string_view name = name_of(topic);
  const std::string text = without_controls(line);
  std::fprintf(stderr, "mezzo %.*s: %s\n", static_cast<int>(name.size()), name.data(),
               text.c_str());
}

void warn_once(std::string_view line) {
  {
    const std::lock_guard lock(state().mutex);
    if (!state().warned.emplace(line).second) return;
  }
  write_line(Topic::kWarning, line);
}

}  // namespace mezzo::logging
