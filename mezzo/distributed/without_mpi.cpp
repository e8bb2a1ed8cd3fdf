#include "mezzo/core/error.h"
#include "mezzo/distributed/launched_group.h"

namespace mezzo::distributed {

bool is_built_with_mpi() { return false; }

std::unique_ptr<ProcessGroup> make_launched_group(int launched) {
  fail<UnsupportedError>(
      "distributed", "this is one of ", launched,
      " processes, but mezzo was built without MPI, which they need to train together. Install "
      "libopenmpi-dev and build mezzo again, start them by torchrun or RANK and WORLD_SIZE, "
      "or start a single process");
}

}  // namespace mezzo::distributed
