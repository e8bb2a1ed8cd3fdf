#include "mezzo/cli/processes.h"

#include <cstdio>
#include <string>

#include "mezzo/core/error.h"

namespace mezzo::cli {

std::unique_ptr<distributed::ProcessGroup> share_work(SharedOptions& options) {
  auto processes = distributed::connect();
  if (processes->rank() == 0) return processes;
  options.quiet = true;
  for (std::string* file : {&options.json, &options.report, &options.logdir}) file->clear();
  if (std::freopen("/dev/null", "w", stdout) == nullptr) {
    fail<FileError>("distributed", "/dev/null: cannot be written. Processes need it");
  }
  return processes;
}

}  // namespace mezzo::cli
