// Commands that were started as several processes: `mpirun -n 2 mezzo train ...`.
#pragma once

#include <memory>
#include <span>

#include "mezzo/cli/options.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/train/run_options.h"

namespace mezzo::cli {

// The processes that share this command's work, for its runs. With `--device cuda` each takes its
// own card. All but the first show no progress, print nothing on standard output, and write none of
// the output files, which are removed from `options`. Only the first prints warnings, since they
// are the same in all.
std::unique_ptr<distributed::ProcessGroup> share_work(SharedOptions& options,
                                                      std::span<train::RunOptions> runs);

// Called before an error that all processes have in common: only the first one reports it.
void leave_the_word_to_the_first(const distributed::ProcessGroup& processes);

}  // namespace mezzo::cli
