// The page of a tuned network: one self-contained HTML file, without scripts.
#pragma once

#include <string>

#include "mezzo/tune/tune.h"

namespace mezzo::report {

// Well-formed, with all names escaped.
std::string tune_page(const tune::TuneResult& result);

// Writes the page through io::AtomicFile. Throws FileError.
void write_tune_page(const std::string& path, const tune::TuneResult& result);

}  // namespace mezzo::report
