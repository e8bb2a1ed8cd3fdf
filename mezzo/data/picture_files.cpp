#include "mezzo/data/picture_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilesOp = "images";

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

[[noreturn]] void fail_to_list(const std::string& folder, const std::error_code& error) {
  fail<FileError>(kFilesOp, folder, ": cannot be listed: ", error.message(), ". Check the path");
}

}  // namespace

void Hidden::add(const std::string& path) {
  // The smallest path is kept, since folders are listed in any order.
  if (count++ == 0 || path < first) first = path;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::vector<std::string> folders_in(const std::string& folder, Hidden& hidden) {
  if (!is_folder(folder)) {
    fail<FileError>(kFilesOp, folder, ": there is no such folder. Check the path");
  }
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_folder(entry->path().string())) continue;
    if (is_hidden(entry->path())) {
      hidden.add(entry->path().string());
    } else {
      names.push_back(entry->path().filename().string());
    }
  }
  if (error) fail_to_list(folder, error);
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> pictures_below(const std::string& folder, Hidden& hidden) {
  constexpr auto kOptions = fs::directory_options::follow_directory_symlink;
  constexpr int kDepth = 64;  // links may form a cycle
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, kOptions, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry.depth() >= kDepth) entry.disable_recursion_pending();
    const bool is_file = is_picture(entry->path()) && entry->is_regular_file(ignored);
    if (is_hidden(entry->path())) {
      if (is_file || entry->is_directory(ignored)) hidden.add(entry->path().string());
      entry.disable_recursion_pending();
    } else if (is_file) {
      paths.push_back(entry->path().string());
    }
  }
  if (error) fail_to_list(folder, error);
  std::ranges::sort(paths, {}, [](const std::string& path) {
    const fs::path picture(path);
    return std::pair(picture.parent_path().string(), picture.filename().string());
  });
  return paths;
}

}  // namespace mezzo::data
