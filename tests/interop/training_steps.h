// The losses and gradients of a network of mezzo, for comparison with another framework.
#pragma once

#include <string>

namespace mezzo::interop {

// Reads from a folder `weights.safetensors`, in the layout of other programs' files, and batches
// `inputs.npy` [n, ...] and `labels.npy` [n, ...], and takes n steps of AdamW in f32 with `model`
// (see models::create()), nothing being dropped out. Writes `losses.npy` [n] and
// `gradients.safetensors`: those of the first batch, in the layout of the weights. With a rate of 0
// every batch meets the first weights.
void training_steps(const std::string& model, const std::string& folder, double rate);

}  // namespace mezzo::interop
