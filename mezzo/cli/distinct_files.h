// Files of the command line that must not be one and the same, nor lie in each other's place.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace mezzo::cli {

struct NamedFile {
  const char* option;
  const std::string& path;  // empty if it is not given
};

// Throws ArgumentError if two of them are one file, by whatever paths: what is written last would
// destroy the other.
void check_distinct(std::initializer_list<NamedFile> files);

// What files that a command writes must leave alone.
struct Kept {
  std::vector<NamedFile> folders{};  // that it writes, too: no file may take their place
  std::string data{};                // --data: the files of its folder
};

// Throws ArgumentError if a file that a command writes lies in a checkpoint, or in the place of
// something that is kept.
void check_outputs(std::initializer_list<NamedFile> files, const Kept& kept = {});

}  // namespace mezzo::cli
