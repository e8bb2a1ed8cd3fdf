// Whether products of f32 numbers may be computed in TF32, where a device has it.
#pragma once

namespace mezzo {

// TF32 rounds both factors to 11 bits and keeps f32's range and sums: as accurate as f16 products,
// at several times the speed of f32. Off unless the environment variable MEZZO_TF32 is 1: f32 is
// what a user asks for who needs its bits. Applies to all threads.
void allow_tf32(bool allow);
bool is_tf32_allowed();

}  // namespace mezzo
