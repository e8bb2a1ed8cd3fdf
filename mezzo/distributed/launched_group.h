// The processes that a launcher has started.
#pragma once

#include <memory>

#include "mezzo/distributed/launch.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {

bool is_built_with_mpi();

// All processes of MPI_COMM_WORLD. Sets up MPI unless the program has; if so, also finalises it.
// `launched` is their number. Throws UnsupportedError if MPI sees another number, and in builds
// without MPI.
std::unique_ptr<ProcessGroup> make_launched_group(int launched);

// The processes that the variables of `launch` name, which exchange data by Gloo and watch each
// other until they end. Throws Error if they do not find each other, and UnsupportedError in builds
// without Gloo.
std::unique_ptr<ProcessGroup> make_gloo_group(const Launch& launch);

}  // namespace mezzo::distributed
