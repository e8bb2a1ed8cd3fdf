#include "mezzo/core/error.h"
#include "mezzo/distributed/launched_group.h"

namespace mezzo::distributed {

std::unique_ptr<ProcessGroup> make_gloo_group(const Launch& launch) {
  fail<UnsupportedError>(
      "distributed", "this is process ", launch.rank, " of ", launch.size,
      " by RANK and WORLD_SIZE, but mezzo was built without Gloo, which they need to train "
      "together. Install libgloo-dev and build mezzo again, start them by MPI's mpirun, or start a "
      "single process");
}

}  // namespace mezzo::distributed
