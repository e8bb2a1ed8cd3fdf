// The table of contents of a page.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/section.h"

namespace mezzo::report {

// An entry that leads to an id of the page, with those below it.
struct Entry {
  std::string id{};
  std::string title{};
  std::vector<Entry> below{};
};

// Those of the sections that have parts.
std::vector<Entry> entries_of(const std::vector<Section>& sections, const Place& place);

// The landmark with its links; empty for fewer than two entries.
std::string contents(const std::vector<Entry>& entries);

}  // namespace mezzo::report
