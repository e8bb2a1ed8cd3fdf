// Graph mode of a training step.
#pragma once

#include "mezzo/amp/train_step.h"
#include "mezzo/graph/compile.h"

namespace mezzo::graph {

// Runs the bodies of training steps captured: forward and backward pass are nodes of a program.
// Reading the loss and the update are host work at their places in it.
//
//   step.set_execution(graph::captured(net));
//
// The same calls run in the same order, so the bits are the same as without it.
amp::StepExecution captured(nn::Module& net, const RecordOptions& record = {});

}  // namespace mezzo::graph
