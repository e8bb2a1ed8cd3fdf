// Finds the pictures in a folder on the disk, by their names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::data {

// The hidden files or folders that were skipped: their names begin with a dot.
struct Hidden {
  std::int64_t count = 0;
  std::string first{};  // its path

  void add(const std::string& path);
};

bool is_folder(const std::string& path);

// The names of the folders in `folder`, sorted (bytes compared). Throws FileError if it is not a
// folder or cannot be listed.
std::vector<std::string> folders_in(const std::string& folder, Hidden& hidden);

// The paths of all files at any depth that end in .jpg, .jpeg or .png in any case. They are ordered
// folder by folder, each folder's own files before those of its subfolders: the order of
// sorted(os.walk()), as in torchvision. Hidden files are counted only if they have these endings.
// Throws FileError if a folder cannot be listed.
std::vector<std::string> pictures_below(const std::string& folder, Hidden& hidden);

}  // namespace mezzo::data
