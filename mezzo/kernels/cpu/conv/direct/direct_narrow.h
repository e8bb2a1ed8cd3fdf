// Convolutions of few channels on the tile unit: the pixels that a row of the kernel reads lie side
// by side in memory, and are read as the channels of one pixel.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/problem.h"

namespace mezzo::kernels::direct_narrow {

// What a convolution at stride 1, or the gradient of one by its input, consists of.
struct Problem {
  std::int64_t images = 0;
  Size2d x{}, y{}, kernel{};
  std::int64_t top = 0, left = 0;  // padding
  std::int64_t channels = 0, outs = 0;
};

// How it is divided. No result depends on the number of threads.
struct Plan {
  explicit Plan(const Problem& problem);

  Problem problem;
  // Channels of a copied pixel: even, for the unit multiplies pairs. The numbers that a row of the
  // kernel reads are cut into blocks of one width: what lies behind them in memory are other
  // pixels, and an infinite one would not become 0 by a weight of 0.
  std::int64_t channels = 0;
  std::int64_t blocks = 0;  // of a row of the kernel; 0: there are none of a width that is possible
  std::int64_t width = 0;   // numbers of one, at most 32
  std::int64_t out_tiles = 0;
  std::int64_t band = 0;  // rows of the result that are computed from one copy

  std::int64_t bands() const { return ceil_div(problem.y.h, band); }
  std::int64_t strips() const { return (problem.y.w + 15) / 16; }  // of a row of the result
  // Numbers of a copied row, as far as the last strip reads, in vain or not.
  std::int64_t line() const { return (16 * strips() - 1 + problem.kernel.w) * channels; }
  std::int64_t lines() const { return band - 1 + problem.kernel.h; }
  // Tiles of the weight: [row of the kernel][block][tile of outputs], each 16 x 16 pairs.
  std::int64_t weight_tiles() const { return problem.kernel.h * blocks * out_tiles; }
};

// Where the weight of an output, a channel, a row and a column of the kernel is found.
struct Weight {
  const BFloat16* first = nullptr;
  std::int64_t out = 0, channel = 0, row = 0, column = 0;  // steps in elements
};
// The weight in tiles, of Plan::weight_tiles() KB.
void pack(const Plan& plan, const Weight& weight, char* tiles);

struct Call {
  const BFloat16* x = nullptr;   // channels-last
  const char* weight = nullptr;  // in tiles
  const float* bias = nullptr;   // or null
  BFloat16* y = nullptr;         // channels-last
};
// Computes parts [begin, end) of images * bands() on this thread: f32 sums in the order of the
// kernel's rows and their blocks, rounded once. Needs a CPU with AMX.
void convolve(const Plan& plan, const Call& call, std::int64_t begin, std::int64_t end);

}  // namespace mezzo::kernels::direct_narrow
