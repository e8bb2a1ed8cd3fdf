// Rotary position embedding.
//
// Su, Lu, Pan, Murtadha, Wen and Liu, "RoFormer: enhanced transformer with rotary position
// embedding", 2021.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo {

// Which two of the d elements of a row are rotated together.
enum class RopePairing : std::uint8_t {
  kHalves,      // elements i and i + d / 2: Llama, GPT-NeoX
  kNeighbours,  // elements 2 i and 2 i + 1: the paper, GPT-J
};

struct RopeOptions {
  double theta = 10000;     // the base of the wavelengths
  std::int64_t offset = 0;  // the position of the first row, where no positions are given
  RopePairing pairing = RopePairing::kHalves;
  std::int64_t axis = -2;  // the axis of the sequence: -2 for x [b, h, t, d], 1 for [b, t, h, d]
};

// Rotates pair i of the last axis, whose size is d, by the angle position * theta^(-2 i / d).
//
// x: [..., d] with an even d and at least one axis more, floating-point; the result has its shape
// and dtype and is row-major. Row j along `axis` has the position offset + j. Angles are f64,
// their sines and cosines f32: an angle in 16 bits would be off by radians from position 256 on in
// bf16. A row has the same bits whether it is computed alone, with its offset, or among others.
// Throws ArgumentError for other shapes and dtypes, if theta is not positive, or if the offset is
// beyond 2^53.
Tensor rope(const Tensor& x, const RopeOptions& options = {});

// The same with positions of one's own: integers [t], or [x.shape()[0], t] where each example has
// its own. `offset` is added to them. On CPUs it also throws ArgumentError for sums beyond 2^53.
Tensor rope(const Tensor& x, const Tensor& positions, const RopeOptions& options = {});

}  // namespace mezzo
