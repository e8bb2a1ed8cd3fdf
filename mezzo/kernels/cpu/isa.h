// Holding oneDNN and the vector loops to max_isa().
#pragma once

namespace mezzo::kernels {

// Applies max_isa() to both. Called before the first kernel runs; later calls do nothing.
void limit_isa();

}  // namespace mezzo::kernels
