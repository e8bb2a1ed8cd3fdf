#include "mezzo/kernels/cpu/conv/planar/grad_weight_planar_plan.h"

#include <algorithm>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"

namespace mezzo::kernels::planar {
namespace {

// The lines of eight output channels stay in the first-level cache while all taps go over them.
constexpr std::int64_t kMostPixels = 1024;

}  // namespace

GradWeightPlan::GradWeightPlan(const Problem& p, std::int64_t vector_lanes)
    : Plan(p, vector_lanes, kMostPixels) {
  measure_copies();
  choose_parts();
  choose_blocks();
}

void GradWeightPlan::measure_copies() {
  const auto planes = static_cast<std::int64_t>(rows.remainders.size() * cols.taps.size());
  grad_line = round_up(chunk_rows * problem.y.w, lanes);
  x_plane = round_up((chunk_rows + rows.halo) * problem.y.w, lanes) + lanes;
  x_planes = chunk_images * x_plane;
  x_channel = planes * x_planes;
}

void GradWeightPlan::choose_parts() {
  // Beginning a part and adding it to the others takes a few instructions per vector of sums. That
  // is little beside this many multiplications.
  constexpr std::int64_t kFewestVectors = 48;
  constexpr std::int64_t kMostParts = 64;
  constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;
  const std::int64_t vectors = problem.images * row_chunks * grad_line / lanes;
  const std::int64_t bytes = sums() * lanes * static_cast<std::int64_t>(sizeof(float));
  parts = std::min({chunks, vectors / kFewestVectors, kMostParts, kMostBytes / bytes});
  parts = std::max<std::int64_t>(parts, 1);
}

void GradWeightPlan::choose_blocks() {
  constexpr std::int64_t kMostElements =
      kCachesWithVectors.second / 2 / static_cast<std::int64_t>(sizeof(float));
  in_block = std::clamp<std::int64_t>(kMostElements / x_channel, 1, problem.in_channels);
  // Even, because two channels of 16 bits are read at once.
  if (in_block > 1 && in_block < problem.in_channels) in_block -= in_block % 2;
  constexpr std::int64_t kBlock = 8;  // channels with sums in registers
  const std::int64_t fitting = kMostElements / (chunk_images * grad_line);
  out_block = std::clamp<std::int64_t>(fitting / kBlock * kBlock, kBlock,
                                       round_up(problem.out_channels, kBlock));
}

std::int64_t GradWeightPlan::x_offset(std::int64_t row_tap, std::int64_t col_tap) const {
  const TapAxis::Tap& row = rows.taps[static_cast<std::size_t>(row_tap)];
  const auto columns = static_cast<std::int64_t>(cols.taps.size());
  return (row.remainder * columns + col_tap) * x_planes + row.shift * problem.y.w;
}

}  // namespace mezzo::kernels::planar
