#include "mezzo/cli/processes.h"

#include <cstdio>

#include "mezzo/core/error.h"

namespace mezzo::cli {

std::unique_ptr<distributed::ProcessGroup> share_work(
    const std::vector<std::string*>& files_of_first) {
  auto processes = distributed::connect();
  if (processes->rank() == 0) return processes;
  for (std::string* file : files_of_first) file->clear();
  if (std::freopen("/dev/null", "w", stdout) == nullptr) {
    fail<FileError>("distributed", "/dev/null: cannot be written. Processes need it");
  }
  return processes;
}

}  // namespace mezzo::cli
