// Graph mode of a training step.
#pragma once

#include "mezzo/amp/train_one_step.h"
#include "mezzo/graph/compile.h"

namespace mezzo::graph {

// Runs the bodies of a step's steps captured: forward and backward pass are nodes of a program, the
// look at the loss and the update are host work at their places in it.
//
//   step.set_execution(graph::captured(net));
//
// The same calls in the same order, hence the same bits as without.
amp::StepExecution captured(nn::Module& net, const RecordOptions& record = {});

}  // namespace mezzo::graph
