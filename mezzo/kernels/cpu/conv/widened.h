// Convolutions of 16-bit images on f32 copies, a few images at a time.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// onednn::run_widened() for calls whose first input and result are batches of images. Only as many
// images are copied at a time as stay in the caches, so no copy of the whole batch exists.
void run_widened_images(const KernelArgs& args, void (*run)(const KernelArgs&));

}  // namespace mezzo::kernels::conv
