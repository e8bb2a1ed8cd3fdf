// Convolutions of 16-bit images that are computed on f32 copies, some images at a time.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// As onednn::run_widened(), for a call whose first input and result are batches of images: so many
// of them are copied at a time as stay in the caches, and the copies of a whole batch never exist.
void run_widened_images(const KernelArgs& args, void (*run)(const KernelArgs&));

}  // namespace mezzo::kernels::conv
