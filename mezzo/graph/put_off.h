// Host work that can wait, moved behind the calls that need not wait for it.
#pragma once

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// Every batch normalization moves its running statistics on, in the middle of the forward pass. On
// a device, each such place would end a recording. Work that can wait is done together, before the
// next that cannot or at the end of the program, in its order. What it reads stays as long.
Program with_host_work_put_off(Program program);

}  // namespace mezzo::graph
