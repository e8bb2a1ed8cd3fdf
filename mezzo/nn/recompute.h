// Recomputation in the backward pass, known as gradient or activation checkpointing: memory for
// time.
//
// Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// From now on, of all that the module's forward pass computes only its input is kept for the
// backward pass, which runs the forward pass once more. Meant for the blocks of a deep network:
// what is kept then is the input of each block and, for a while, the inside of one.
//
// Gradients are the same bit for bit, as long as nothing but the module uses its input: the second
// run sees the same precision region and the same random numbers, and what it does to buffers (the
// running statistics of batch norm) is undone. Parameters, the modes of the modules inside and the
// buffers of those in inference mode must not change in between, and nothing that requires a
// gradient may be used but the input and the parameters: both are checked in the backward pass.
// The module must live until that is done. It is called through operator(). Other forward hooks
// run in both runs. Gradients of gradients are refused. Without recording the module runs as ever.
//
// Throws ArgumentError if the module is recomputed already, or has no children: a single layer
// saves little more than its input.
void recompute(Module& module);

// Undoes recompute(). Does nothing for modules that are not recomputed.
void stop_recompute(Module& module);

// Whether recompute() holds for the module itself, not for one around it.
bool is_recomputed(const Module& module);

}  // namespace mezzo::nn
