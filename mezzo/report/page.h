// The report of one or several runs as a single self-contained HTML page, without scripts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

struct Report {
  std::string title{};
  std::vector<RunData> runs{};
  std::size_t total_runs = 0;  // how many runs there are to be, if some are yet to come
};

// The page: well-formed, with all names escaped. Several runs are first compared and then shown one
// after the other. While the last of them goes on, the page says so, and browsers load it anew
// every five seconds.
std::string to_html(const Report& report);

// Writes the page through io::AtomicFile. Throws FileError.
void write_page(const std::string& path, const Report& report);

// Throws FileError unless write_page() could write that file now. Call it before hours of training.
void check_writable(const std::string& path);

}  // namespace mezzo::report
