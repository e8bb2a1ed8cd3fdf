// The page of a comparison of two runs of a step: one self-contained HTML file, without scripts.
#pragma once

#include <string>

#include "mezzo/numbers/compare.h"

namespace mezzo::report {

// Well-formed, with all names escaped.
std::string diff_page(const numbers::Comparison& found);

// Writes the page through io::AtomicFile. Throws FileError.
void write_diff_page(const std::string& path, const numbers::Comparison& found);

}  // namespace mezzo::report
