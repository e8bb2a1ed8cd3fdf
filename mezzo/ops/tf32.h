// The switch for TF32: whether devices that have it may compute f32 products in TF32.
#pragma once

namespace mezzo {

// TF32 rounds both factors to 11 bits and keeps f32's range and sums. It is as accurate as 16-bit
// products with 11 bits, at several times the speed of f32. Off by default, because a user who
// chooses f32 expects its accuracy; the environment variable MEZZO_TF32=1 turns it on. Applies to
// all threads.
void allow_tf32(bool allow);
bool is_tf32_allowed();

}  // namespace mezzo
