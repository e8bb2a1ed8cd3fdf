// Host work that need not be done at its place, moved out of the way of calls.
#pragma once

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// On a device, host work between calls ends a recording: every batch normalization moves its
// running statistics on in the middle of the forward pass, and the loss scale is looked up behind
// it. What can wait is done together, before the next host work that cannot or at the end of the
// program, and what it reads stays as long. What can go ahead is done behind the last work before
// it that is done at its place, or first of all. Each kind keeps its order.
Program with_host_work_moved(Program program);

}  // namespace mezzo::graph
