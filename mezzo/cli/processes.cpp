#include "mezzo/cli/processes.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/distributed/tensors.h"

namespace mezzo::cli {

namespace {

void silence(std::FILE* stream) {
  if (std::freopen("/dev/null", "w", stream) == nullptr) {
    fail<FileError>("distributed",
                    "/dev/null: cannot be written. Training in several processes needs it");
  }
}

// Warnings concern the network, its precision or a checkpoint, which all processes share.
void write_but_warnings(logging::Topic topic, std::string_view line) {
  if (topic != logging::Topic::kWarning) logging::write_to_standard_error(topic, line);
}

}  // namespace

std::unique_ptr<distributed::ProcessGroup> share_work(SharedOptions& options,
                                                      std::span<train::RunOptions> runs) {
  auto processes = distributed::connect();
  const bool takes_own_card = processes->size() > 1 && options.device == "cuda";
  for (train::RunOptions& run : runs) {
    run.processes = processes.get();
    if (takes_own_card) run.device = distributed::own_card();
  }
  if (processes->rank() == 0) return processes;
  options.quiet = true;
  for (std::string* file : {&options.json, &options.report, &options.logdir}) file->clear();
  silence(stdout);
  logging::set_sink(write_but_warnings);
  return processes;
}

void leave_the_word_to_the_first(const distributed::ProcessGroup& processes) {
  if (processes.rank() > 0) silence(stderr);
}

}  // namespace mezzo::cli
