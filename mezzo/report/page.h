// The report of one or several runs as one page that needs nothing else: no scripts, no other file.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

struct Report {
  std::string title{};
  std::vector<RunData> runs{};
};

// The page: well-formed, all names escaped. Several runs are compared first and then shown one
// after the other.
std::string to_html(const Report& report);

// Writes the page through io::AtomicFile. Throws FileError.
void write_page(const std::string& path, const Report& report);

// Throws FileError unless write_page() could write that file now. For asking before hours of
// training.
void check_writable(const std::string& path);

}  // namespace mezzo::report
