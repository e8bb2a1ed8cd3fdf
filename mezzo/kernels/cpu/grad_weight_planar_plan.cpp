#include "mezzo/kernels/cpu/grad_weight_planar_plan.h"

#include <algorithm>

namespace mezzo::kernels::grad_weight {
namespace {

std::int64_t divide_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step; }
std::int64_t round_up(std::int64_t n, std::int64_t step) { return divide_up(n, step) * step; }

}  // namespace

PlanarPlan::PlanarPlan(const Problem& p, std::int64_t vector_lanes)
    : problem(p),
      lanes(vector_lanes),
      rows(p.kernel.h, p.attrs.stride.h, p.attrs.dilation.h, p.attrs.padding.top),
      cols(p.kernel.w, p.attrs.stride.w, p.attrs.dilation.w, p.attrs.padding.left) {
  cut_chunks();
  measure_copies();
  choose_parts();
  choose_blocks();
}

void PlanarPlan::cut_chunks() {
  // The lines of eight output channels stay in the first-level cache while all taps go over them.
  constexpr std::int64_t kMostPixels = 1024;
  const std::int64_t pixels = problem.y.h * problem.y.w;
  row_chunks = std::min(divide_up(pixels, kMostPixels), problem.y.h);
  chunk_rows = divide_up(problem.y.h, row_chunks);
  row_chunks = divide_up(problem.y.h, chunk_rows);
  // Chunks of the same size, so that parts are.
  const std::int64_t most_images = std::max<std::int64_t>(1, kMostPixels / pixels);
  chunk_images = divide_up(problem.images, divide_up(problem.images, most_images));
  chunks = divide_up(problem.images, chunk_images) * row_chunks;
}

void PlanarPlan::measure_copies() {
  const auto planes = static_cast<std::int64_t>(rows.remainders.size() * cols.taps.size());
  grad_line = round_up(chunk_rows * problem.y.w, lanes);
  x_plane = round_up((chunk_rows + rows.halo) * problem.y.w, lanes) + lanes;
  x_planes = chunk_images * x_plane;
  x_channel = planes * x_planes;
}

void PlanarPlan::choose_parts() {
  // A part begins and is added to the others with a few instructions per vector of sums, which is
  // little beside this many multiplications.
  constexpr std::int64_t kFewestVectors = 48;
  constexpr std::int64_t kMostParts = 64;
  constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;
  const std::int64_t vectors = problem.images * row_chunks * grad_line / lanes;
  const std::int64_t bytes = sums() * lanes * static_cast<std::int64_t>(sizeof(float));
  parts = std::min({chunks, vectors / kFewestVectors, kMostParts, kMostBytes / bytes});
  parts = std::max<std::int64_t>(parts, 1);
}

void PlanarPlan::choose_blocks() {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 17;  // half of a second-level cache
  in_block = std::clamp<std::int64_t>(kMostElements / x_channel, 1, problem.in_channels);
  // Even: two channels of 16 bits are read at once.
  if (in_block > 1 && in_block < problem.in_channels) in_block -= in_block % 2;
  constexpr std::int64_t kBlock = 8;  // of sums in registers
  const std::int64_t fitting = kMostElements / (chunk_images * grad_line);
  out_block = std::clamp<std::int64_t>(fitting / kBlock * kBlock, kBlock,
                                       round_up(problem.out_channels, kBlock));
}

Chunk PlanarPlan::chunk(std::int64_t index) const {
  const std::int64_t image = index / row_chunks * chunk_images;
  const std::int64_t row = index % row_chunks * chunk_rows;
  return {image, std::min(image + chunk_images, problem.images), row,
          std::min(row + chunk_rows, problem.y.h)};
}

std::int64_t PlanarPlan::x_offset(std::int64_t row_tap, std::int64_t col_tap) const {
  const TapAxis::Tap& row = rows.taps[static_cast<std::size_t>(row_tap)];
  const auto columns = static_cast<std::int64_t>(cols.taps.size());
  return (row.remainder * columns + col_tap) * x_planes + row.shift * problem.y.w;
}

}  // namespace mezzo::kernels::grad_weight
