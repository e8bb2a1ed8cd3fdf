// Commands that were started as several processes: `mpirun -n 2 mezzo train ...`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mezzo/distributed/process_group.h"

namespace mezzo::cli {

// The processes that share the work of this command. All but the first say nothing on standard
// output, and write none of the files that these options name: their paths are emptied.
std::unique_ptr<distributed::ProcessGroup> share_work(
    const std::vector<std::string*>& files_of_first);

}  // namespace mezzo::cli
