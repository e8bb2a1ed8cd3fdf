// What of a CPU decides which method computes a convolution.
#pragma once

#include <cstdint>

namespace mezzo::kernels::conv {

struct Machine {
  std::int64_t lanes =
      0;  // f32 values in a vector; 0: vectors are not worth choosing (has_vectors())
  bool has_tiles = false;  // AMX for bf16
  bool has_fast_dot =
      false;  // a dot product of bf16 with twice the arithmetic of f32's multiply-add

  bool has_vectors() const { return lanes > 0; }
  // Without it a kernel widens bf16 to f32, which is as fast as what oneDNN has.
  bool has_fast_bf16() const { return has_tiles || has_fast_dot; }
  bool has_wide_vectors() const { return lanes >= 16; }
};

// The CPU that this runs on, within MEZZO_MAX_ISA.
Machine this_machine();

}  // namespace mezzo::kernels::conv
