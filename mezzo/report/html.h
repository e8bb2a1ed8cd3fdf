// The building blocks of a page's HTML. Texts that go in are plain and are escaped here; what is
// called `html` is markup already.
#pragma once

#include <string>
#include <string_view>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

// `<tag>text</tag>`.
std::string element(std::string_view tag, std::string_view text);

// A paragraph in small, soft letters: how to read what follows.
std::string note(std::string_view text);

// A chart or a picture in a frame of its own.
std::string figure(std::string_view html);

// A table, which scrolls within its own box where it is wider than the page. The caption says what
// the rows are; it is not drawn, since a heading stands above every table.
std::string table(const Table& content, std::string_view caption);
// The same, but folded where it has many rows.
std::string table_folded_if_long(const Table& content, std::string_view caption);

// A part that is folded until the reader opens it by its summary.
std::string details(std::string_view summary, std::string_view html);

// The same text, with each number and its percent sign on one line.
std::string with_whole_percentages(std::string text);

}  // namespace mezzo::report
