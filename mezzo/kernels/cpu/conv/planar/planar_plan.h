// How kernels for few channels lay out images: channel by channel, so that a vector holds adjacent
// pixels. This is the geometry, without any arithmetic on tensors.
//
// Rows are copied with their padding. The columns of each remainder by the stride go to a line of
// their own, in which a tap reads contiguous pixels for adjacent output pixels.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/kernels/cpu/conv/tap_axis.h"

namespace mezzo::kernels::planar {

using grad_weight::Chunk;
using grad_weight::Problem;
using grad_weight::TapAxis;

struct Plan {
  // Chunks have about `most_pixels` pixels of y, or are one row.
  Plan(const Problem& problem, std::int64_t lanes, std::int64_t most_pixels);

  Problem problem;
  std::int64_t lanes = 1;
  TapAxis rows, cols;
  // A chunk is several images, or rows of one. Chunks depend on the shapes alone.
  std::int64_t chunk_images = 1, chunk_rows = 1;
  std::int64_t row_chunks = 1, chunks = 1;

  Chunk chunk(std::int64_t index) const;
  std::int64_t taps() const { return problem.kernel.h * problem.kernel.w; }

  // Elements of a copied row: the output's pixels, and what the taps read beyond them.
  std::int64_t pitch() const { return problem.y.w + cols.halo; }
  // Elements of the copied rows of a chunk's image, for one channel and one remainder of rows and
  // columns. Whole vectors are read and written at their end.
  std::int64_t line() const { return (chunk_rows + rows.halo) * pitch() + 2 * lanes; }

 private:
  void cut_chunks(std::int64_t most_pixels);
};

}  // namespace mezzo::kernels::planar
