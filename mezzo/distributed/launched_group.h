// The processes that a launcher has started.
#pragma once

#include <memory>

#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {

// All processes of MPI_COMM_WORLD. Sets up MPI unless the program has; if so, also finalises it.
// `launched` is their number. Throws UnsupportedError if MPI sees another number, and in builds
// without MPI.
std::unique_ptr<ProcessGroup> make_launched_group(int launched);

}  // namespace mezzo::distributed
