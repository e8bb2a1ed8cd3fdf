// Checks that the files of the command line do not overwrite each other.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace mezzo::cli {

struct NamedFile {
  const char* option;
  const std::string& path;  // empty if not given
};

// Throws ArgumentError if two of them are the same file, whatever their paths: the one written last
// would destroy the other.
void check_distinct(std::initializer_list<NamedFile> files);

// Files and folders that a command's output must not touch.
struct Kept {
  std::vector<NamedFile> folders{};  // which the command also writes: no file may take their place
  std::string data{};                // --data: the files of its folder
};

// Throws ArgumentError if an output file lies in a checkpoint, or in the place of something in
// `kept`.
void check_outputs(std::initializer_list<NamedFile> files, const Kept& kept = {});

}  // namespace mezzo::cli
