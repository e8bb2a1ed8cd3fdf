// The pictures in a folder on the disk, by their names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::data {

// What was passed over because it is hidden: its name begins with a dot.
struct Hidden {
  std::int64_t count = 0;
  std::string first{};  // its path

  void add(const std::string& path);
};

bool is_folder(const std::string& path);

// The names of the folders in `folder`, sorted, bytes compared. Throws FileError if it is no folder
// or cannot be listed.
std::vector<std::string> folders_in(const std::string& folder, Hidden& hidden);

// Paths of the files anywhere below that end in .jpg, .jpeg or .png in any case, folder by folder,
// each one's own before those of the folders in it: the order of sorted(os.walk()), which is
// torchvision's. Of hidden files only those that end so are counted. Throws FileError if a folder
// cannot be listed.
std::vector<std::string> pictures_below(const std::string& folder, Hidden& hidden);

}  // namespace mezzo::data
