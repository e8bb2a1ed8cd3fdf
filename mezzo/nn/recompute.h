// Recomputation in the backward pass, known as gradient or activation checkpointing, which trades
// time for memory.
//
// Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// From now on, only the inputs of the module's forward pass are kept for the backward pass, which
// runs the forward pass once more. Meant for the blocks of a deep network: memory then holds the
// inputs of each block and, for a while, the inside of one. A module may have several inputs, and
// up to four floating-point results.
//
// Gradients are bit-identical, as long as nothing but the module uses its inputs. The second run
// uses the same precision region, direct sums where the first did, and the same random numbers, and
// its changes of buffers (the running statistics of batch norm) are undone. Parameters, the modes
// of the modules inside, and the buffers of those in inference mode must not change in between.
// Nothing that requires a gradient may be used but the inputs and the parameters. Both are checked
// in the backward pass. The module must live until that is done. It must be called through
// operator(). Other forward hooks run in both runs. Gradients of gradients are refused. Without
// recording the module runs normally.
//
// Throws ArgumentError if the module is recomputed already, or has no children: a single layer
// saves little more than its input.
void recompute(Module& module);

// Undoes recompute(). Does nothing for modules that are not recomputed.
void stop_recompute(Module& module);

// Whether the module itself is recomputed, not one that contains it.
bool is_recomputed(const Module& module);

}  // namespace mezzo::nn
