// Moves host work out of the way of calls, if it need not be done at its place.
#pragma once

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// On a device, host work between calls ends a recording. For example, every batch normalization
// updates its running statistics in the middle of the forward pass, followed by a read of the loss
// scale. Work that can wait is done together, before the next host work that cannot or at the end
// of the program; tensors that it reads stay alive until then. Work that can go ahead is done right
// after the previous host work that stays in its place, or at the beginning. Each kind keeps its
// order.
Program with_host_work_moved(Program program);

}  // namespace mezzo::graph
