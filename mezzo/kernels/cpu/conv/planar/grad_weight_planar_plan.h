// How the weight gradient of a convolution with few channels is cut into dot products of straight
// lines: the geometry, without any arithmetic on tensors.
//
//   dw[o][c][i][j] = sum over output pixels q of dy[o][q] * x[c][input pixel of q and tap (i, j)]
//
// Both images are copied channel by channel. There is one copy of x for every column j of taps and
// every remainder of the rows by the stride. It holds only the columns that this j reads, so the
// input of output pixel q is q plus a number of rows that depends on i alone. A vector then holds
// adjacent pixels, however few the channels are. No lane is spent on padding except in the last
// vector of a line.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/conv/planar/planar_plan.h"

namespace mezzo::kernels::planar {

struct GradWeightPlan : Plan {
  GradWeightPlan(const Problem& problem, std::int64_t lanes);

  // Parts, like chunks, depend on the shapes alone, and each has sums of its own. So the result is
  // the same for every number of threads.
  std::int64_t parts = 1;
  // Channels that are copied at a time.
  std::int64_t in_block = 1, out_block = 1;

  // Sizes of the copies, in elements: an image's channel of dy; a plane of an image of x, with what
  // the last vector reads and writes beyond it; the distance between planes; a channel of x.
  std::int64_t grad_line = 0, x_plane = 0, x_planes = 0, x_channel = 0;

  // Vectors of sums in a part. A block of output channels may have one more than there are
  // channels.
  std::int64_t sums() const { return (problem.out_channels + 1) * problem.in_channels * taps(); }

  // Where a tap's line begins in the planes of its channel.
  std::int64_t x_offset(std::int64_t row_tap, std::int64_t col_tap) const;

 private:
  void measure_copies();
  void choose_parts();
  void choose_blocks();
};

}  // namespace mezzo::kernels::planar
