// Convolutions of few channels on the tile unit. The pixels under a row of the kernel are
// contiguous in memory, and are read as the channels of one pixel.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/problem.h"

namespace mezzo::kernels::direct_narrow {

// A convolution at stride 1, or the input gradient of one.
struct Problem {
  std::int64_t images = 0;
  Size2d x{}, y{}, kernel{};
  std::int64_t top = 0, left = 0;  // padding
  std::int64_t channels = 0, outs = 0;
};
// Of a convolution, or of the gradient of one by its input, which is a convolution of the result's
// gradient with the turned kernel.
Problem problem_of(const conv::Problem& problem);

// How the work is divided. No result depends on the number of threads.
struct Plan {
  explicit Plan(const Problem& problem);

  Problem problem;
  // Channels of a copied pixel: even, since the unit multiplies pairs. The values that a row of the
  // kernel reads are cut into blocks of one width. Wider tiles would read other pixels, and an
  // infinite value would not become 0 by a weight of 0.
  std::int64_t channels = 0;
  std::int64_t blocks = 0;  // per row of the kernel; 0: no possible width divides the row
  std::int64_t width = 0;   // values of a block, at most 32
  std::int64_t out_tiles = 0;
  std::int64_t band = 0;  // rows of the result that are computed from one copy

  std::int64_t bands() const { return ceil_div(problem.y.h, band); }
  std::int64_t strips() const { return (problem.y.w + 15) / 16; }  // per row of the result
  // Values of a copied row, as far as the last strip reads, used or not.
  std::int64_t line() const { return (16 * strips() - 1 + problem.kernel.w) * channels; }
  std::int64_t lines() const { return band - 1 + problem.kernel.h; }
  // Tiles of the weight: [row of the kernel][block][tile of outputs], each 16 x 16 pairs.
  std::int64_t weight_tiles() const { return problem.kernel.h * blocks * out_tiles; }
};

// The weight in memory, addressed by output, channel, and row and column of the kernel.
struct Weight {
  const BFloat16* first = nullptr;
  std::int64_t out = 0, channel = 0, row = 0, column = 0;  // steps in elements
};
// Packs the weight into Plan::weight_tiles() tiles of 1 KB.
void pack(const Plan& plan, const Weight& weight, char* tiles);

struct Call {
  const BFloat16* x = nullptr;   // channels-last
  const char* weight = nullptr;  // in tiles
  const float* bias = nullptr;   // null: no bias
  BFloat16* y = nullptr;         // channels-last
};
// Computes parts [begin, end) of images * bands() on the calling thread. f32 sums run over the
// kernel's rows and their blocks, and are rounded once. Needs a CPU with AMX.
void convolve(const Plan& plan, const Call& call, std::int64_t begin, std::int64_t end);

}  // namespace mezzo::kernels::direct_narrow
