#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"

#include <algorithm>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/tap_axis.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"

namespace mezzo::kernels::grad_weight {
namespace {

constexpr std::int64_t kElement = 4;  // bytes of an element of a panel

}  // namespace

Plan::Plan(const Problem& p, int threads) : problem(p) {
  in_panels = ceil_div(p.in_channels, kPanel);
  out_panels = ceil_div(p.out_channels, kPanel);
  place_taps();
  pair_images();
  cut_chunks(threads);
  divide(threads);
  // Chunks get longer if threads do not divide them: sums are read and written once per chunk.
  if (chunk_parts == 1) cut_chunks(1);
}

void Plan::place_taps() {
  const Conv2dAttrs& a = problem.attrs;
  const TapAxis rows(problem.kernel.h, a.stride.h, a.dilation.h, a.padding.top);
  const TapAxis cols(problem.kernel.w, a.stride.w, a.dilation.w, a.padding.left);
  const auto remainder = [](const TapAxis& axis, const TapAxis::Tap& tap) {
    return axis.remainders[static_cast<std::size_t>(tap.remainder)];
  };
  first_shift_row = rows.first_shift;
  first_shift_col = cols.first_shift;
  halo = rows.halo;
  pitch = problem.y.w + cols.halo;
  for (const TapAxis::Tap& row : rows.taps) {
    for (const TapAxis::Tap& col : cols.taps) {
      const Plane plane{remainder(rows, row), remainder(cols, col)};
      const auto found = std::find(planes.begin(), planes.end(), plane);
      const std::int64_t index = found - planes.begin();
      if (found == planes.end()) planes.push_back(plane);
      taps.push_back({index, row.shift * pitch + col.shift});
    }
  }
}

void Plan::pair_images() {
  const std::int64_t rows = problem.y.h;
  if (!is_paired(problem.products)) {
    for (std::int64_t n = 0; n < problem.images; ++n) {
      slots.push_back({{n, -1}, {0, 0}, {rows, 0}});
    }
    return;
  }
  for (std::int64_t n = 0; n + 1 < problem.images; n += 2) {
    slots.push_back({{n, n + 1}, {0, 0}, {rows, rows}});
  }
  if (problem.images % 2 == 0) return;
  const std::int64_t last = problem.images - 1;
  const std::int64_t upper = (rows + 1) / 2;
  slots.push_back({{last, last}, {0, upper}, {upper, rows - upper}});
}

void Plan::cut_chunks(int parts) {
  // A chunk is short enough that what is read repeatedly stays in the second-level cache. For the
  // vector unit that is both sides: it reads them in parts, for sums in its registers. For the tile
  // unit it is the side with fewer panels. A chunk is long enough that rows beyond it, and the tile
  // unit's sums, cost little.
  const std::int64_t x_panels = in_panels * static_cast<std::int64_t>(planes.size());
  const std::int64_t panels =
      problem.products == Products::kTiles ? std::min(out_panels, x_panels) : out_panels + x_panels;
  const std::int64_t fitting = second_level_cache() / 2 / (panels * kPanel * kElement);
  // A flat problem meets each pixel once, so a chunk has little to multiply. Chunks of 500 pixels
  // leave too little of the cache to the sums; chunks of 300 read the sums too often.
  const std::int64_t wanted = problem.is_flat() ? 400 : 512;
  // The vector unit reads and writes all sums for every chunk; many sums lie in the third-level
  // cache.
  const std::int64_t fewest = problem.products == Products::kTiles ? 128 : 256;
  const std::int64_t most_pixels = std::clamp(fitting, fewest, wanted);
  const std::int64_t rounding = problem.is_flat() ? most_pixels / 2 : most_pixels - 1;
  const auto count = static_cast<std::int64_t>(slots.size());
  chunks.clear();
  for (std::int64_t first = 0; first < count;) {
    const std::int64_t rows = slots[static_cast<std::size_t>(first)].rows[0];
    const std::int64_t pixels = rows * pitch;
    if (pixels <= most_pixels) {
      std::int64_t end = first + 1;
      // At least one chunk per part if there are that many slots.
      const std::int64_t most_slots = std::max<std::int64_t>(
          1, std::min(most_pixels / std::max<std::int64_t>(pixels, 1), count / parts));
      while (end < count && end - first < most_slots &&
             slots[static_cast<std::size_t>(end)].rows[0] == rows) {
        ++end;
      }
      chunks.push_back({first, end, 0, rows});
      first = end;
      continue;
    }
    const std::int64_t pieces = (pixels + rounding) / most_pixels;
    const std::int64_t step = ceil_div(rows, pieces);
    for (std::int64_t row = 0; row < rows; row += step) {
      chunks.push_back({first, first + 1, row, std::min(row + step, rows)});
    }
    ++first;
  }
}

void Plan::divide(int threads) {
  // Every part of the chunks has sums of its own, which are added up at the end. That is not worth
  // it if the sums are larger than half of the inputs.
  const std::int64_t sums = vectors() * out_panels * kPanel * kPanel;
  const std::int64_t inputs = problem.images * (problem.x.h * problem.x.w * problem.in_channels +
                                                problem.y.h * problem.y.w * problem.out_channels);
  const std::int64_t worth =
      std::max<std::int64_t>(1, inputs / std::max<std::int64_t>(2 * sums, 1));
  const auto count = static_cast<std::int64_t>(chunks.size());
  chunk_parts = std::clamp<std::int64_t>(std::min<std::int64_t>(worth, count), 1, threads);
  divide_panels(threads / chunk_parts);
  const std::int64_t left = threads / (in_parts * out_parts);
  chunk_parts = std::clamp<std::int64_t>(left, 1, std::max<std::int64_t>(count, 1));
}

// Takes as many parts as possible, and among those divisions the one that copies least: each part
// copies its own channels of x and of dy.
void Plan::divide_panels(std::int64_t parts) {
  const std::int64_t x_pixels =
      static_cast<std::int64_t>(planes.size()) * pitch * (problem.y.h + halo);
  const std::int64_t y_pixels = problem.y.h * problem.y.w;
  const auto copied = [&](std::int64_t in, std::int64_t out) {
    return x_pixels * ceil_div(in_panels, in) + y_pixels * ceil_div(out_panels, out);
  };
  in_parts = 1;
  out_parts = std::clamp<std::int64_t>(parts, 1, out_panels);
  if (problem.joined.columns > 0) return;  // pixels are copied with all their channels
  for (std::int64_t in = 2; in <= std::min(parts, in_panels); ++in) {
    const std::int64_t out = std::min(parts / in, out_panels);
    const std::int64_t more = in * out - in_parts * out_parts;
    if (more < 0 || (more == 0 && copied(in, out) >= copied(in_parts, out_parts))) continue;
    in_parts = in;
    out_parts = out;
  }
}

bool Plan::sums_fit_weight() const {
  return chunk_parts == 1 && problem.in_channels % kPanel == 0 &&
         problem.out_channels % kPanel == 0;
}

bool Plan::sums_are_weight() const {
  // With many taps, the rows of a weight lie far apart; visiting them for every chunk takes longer.
  const bool is_near = taps.size() == 1 || (problem.channels_last && chunks.size() == 1);
  return is_near && sums_fit_weight();
}

std::int64_t Plan::sum_count() const {
  return chunk_parts * out_panels * vectors() * kPanel * kPanel;
}

std::int64_t Plan::sums_at(std::int64_t chunk_part, std::int64_t out_panel, std::int64_t in_panel,
                           std::int64_t tap) const {
  if (sums_are_weight()) {
    return out_panel * kPanel * weight_row() + tap * problem.in_channels + in_panel * kPanel;
  }
  const std::int64_t vector = in_panel * static_cast<std::int64_t>(taps.size()) + tap;
  return ((chunk_part * out_panels + out_panel) * vectors() + vector) * kPanel * kPanel;
}

std::int64_t Plan::plane_pixels(const Chunk& chunk) const {
  return (chunk.rows() + halo) * pitch + (problem.products == Products::kTiles ? kPanel - 1 : 0);
}

std::int64_t Plan::grad_pixels(const Chunk& chunk) const {
  if (problem.products != Products::kTiles) return chunk.rows() * problem.y.w;
  return round_up((chunk.rows() - 1) * pitch + problem.y.w, kPanel);
}

std::int64_t Plan::most_x(std::int64_t panels) const {
  std::int64_t most = 0;
  for (const Chunk& chunk : chunks) most = std::max(most, chunk.slots() * plane_pixels(chunk));
  return most * panels * static_cast<std::int64_t>(planes.size()) * kPanel;
}

std::int64_t Plan::most_grad(std::int64_t panels) const {
  std::int64_t most = 0;
  for (const Chunk& chunk : chunks) most = std::max(most, chunk.slots() * grad_pixels(chunk));
  return most * panels * kPanel;
}

}  // namespace mezzo::kernels::grad_weight
