#include "mezzo/core/error.h"
#include "mezzo/distributed/launched_group.h"

namespace mezzo::distributed {

std::unique_ptr<ProcessGroup> make_launched_group(int launched) {
  fail<UnsupportedError>("distributed", "this is one of ", launched,
                         " processes, and mezzo was built without MPI, by which they would train "
                         "together. Install libopenmpi-dev and build it again, or start one alone");
}

}  // namespace mezzo::distributed
