#include "mezzo/cli/distinct_files.h"

#include <filesystem>

#include "mezzo/core/error.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;  // also by way of hard links
  // Alone it leaves `new` relative and makes `./new` absolute, as long as neither is there.
  const fs::path of_a = fs::weakly_canonical(fs::absolute(a, error), error);
  const fs::path of_b = fs::weakly_canonical(fs::absolute(b, error), error);
  return error ? a == b : of_a == of_b;
}

}  // namespace

void check_distinct(std::initializer_list<NamedFile> files) {
  for (auto later = files.begin(); later != files.end(); ++later) {
    if (later->path.empty()) continue;
    for (auto earlier = files.begin(); earlier != later; ++earlier) {
      if (earlier->path.empty() || !is_same_file(earlier->path, later->path)) continue;
      fail<ArgumentError>(later->option, later->path, ": is the file of ", earlier->option,
                          ", too. Name another");
    }
  }
}

}  // namespace mezzo::cli
