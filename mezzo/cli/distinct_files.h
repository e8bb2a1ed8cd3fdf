// Files of the command line that must not be one and the same.
#pragma once

#include <initializer_list>
#include <string>

namespace mezzo::cli {

struct NamedFile {
  const char* option;
  const std::string& path;  // empty if it is not given
};

// Throws ArgumentError if two of them are one file, by whatever paths: what is written last would
// destroy the other.
void check_distinct(std::initializer_list<NamedFile> files);

}  // namespace mezzo::cli
