// The report of one or several runs as a single self-contained HTML page, without scripts.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

struct Report {
  std::string title{};
  std::vector<RunData> runs{};
};

// The page: well-formed, with all names escaped. Several runs are first compared and then shown one
// after the other.
std::string to_html(const Report& report);

// Writes the page through io::AtomicFile. Throws FileError.
void write_page(const std::string& path, const Report& report);

// Throws FileError unless write_page() could write that file now. Call it before hours of training.
void check_writable(const std::string& path);

}  // namespace mezzo::report
