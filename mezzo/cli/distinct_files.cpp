#include "mezzo/cli/distinct_files.h"

#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/data/open.h"
#include "mezzo/io/checkpoint_folder.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;  // also finds hard links
  // weakly_canonical() alone leaves `new` relative and makes `./new` absolute while neither exists.
  const fs::path of_a = fs::weakly_canonical(fs::absolute(a, error), error);
  const fs::path of_b = fs::weakly_canonical(fs::absolute(b, error), error);
  return error ? a == b : of_a == of_b;
}

// A checkpoint with a foreign file in it would be damaged, or could not be removed.
bool lies_in_checkpoint(const std::string& path) {
  std::error_code ignored;
  try {
    static_cast<void>(io::parse_manifest_of(fs::absolute(path, ignored).parent_path().string()));
    return true;
  } catch (const FileError&) {
    return false;
  }
}

bool is_or_holds(const std::string& path, const std::string& folder) {
  std::error_code ignored;
  fs::path above = fs::absolute(folder, ignored);
  for (; above.has_relative_path(); above = above.parent_path()) {
    if (is_same_file(path, above.string())) return true;
  }
  return false;
}

}  // namespace

void check_outputs(std::initializer_list<NamedFile> files, const Kept& kept) {
  for (const NamedFile& file : files) {
    if (file.path.empty()) continue;
    check_arg(!lies_in_checkpoint(file.path), file.option, file.path,
              ": lies in a checkpoint, which it would damage. Choose a file elsewhere");
    check_arg(!data::is_file_of(kept.data, file.path), file.option, file.path,
              ": is, or would become, a file of --data. Choose another");
    for (const NamedFile& folder : kept.folders) {
      check_arg(folder.path.empty() || !is_or_holds(file.path, folder.path), file.option, file.path,
                ": is the folder of ", folder.option, ", or above it. Choose another");
    }
  }
}

void check_distinct(std::initializer_list<NamedFile> files) {
  for (auto later = files.begin(); later != files.end(); ++later) {
    if (later->path.empty()) continue;
    for (auto earlier = files.begin(); earlier != later; ++earlier) {
      if (earlier->path.empty() || !is_same_file(earlier->path, later->path)) continue;
      fail<ArgumentError>(later->option, later->path, ": is the file of ", earlier->option,
                          ", too. Choose another");
    }
  }
}

}  // namespace mezzo::cli
