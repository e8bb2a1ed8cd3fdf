// Commands that were started as several processes: `mpirun -n 2 mezzo train ...`.
#pragma once

#include <memory>

#include "mezzo/cli/options.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::cli {

// The processes that share the work of this command. All but the first show no progress, say
// nothing on standard output, and write none of the files that the options name: these are changed.
// Warnings, which are the same in all, are the first one's, too.
std::unique_ptr<distributed::ProcessGroup> share_work(SharedOptions& options);

// Before an error that all have in common: only the first process says it.
void leave_the_word_to_the_first(const distributed::ProcessGroup& processes);

}  // namespace mezzo::cli
