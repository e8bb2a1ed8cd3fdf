#include "mezzo/kernels/cpu/conv/direct/direct_plan.h"

#include <utility>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"

namespace mezzo::kernels::direct {
namespace {

constexpr std::int64_t kBytes = 2;  // per element
// Channels of a panel: 34 pixels of three rows, which a 3x3 kernel reads for a strip, are 13 KB.
constexpr std::int64_t kPanel = 64;
// A weight and a band of pixels share the second-level cache.
constexpr std::int64_t kWeightBytes = kCachesWithTiles.second * 3 / 8;
constexpr std::int64_t kBandBytes = kCachesWithTiles.second / 4;
// Columns whose sums for a strip stay in the first-level cache beside a panel's pixels.
constexpr std::int64_t kColumnsWithSums = 128;

std::int64_t divided_down(std::int64_t n, std::int64_t by) {
  return n < 0 ? -ceil_div(-n, by) : n / by;
}

// A window along one axis.
struct Axis {
  std::int64_t kernel = 1, stride = 1, dilation = 1, padding = 0;
};

AxisPhase forward_phase(const Axis& axis, std::int64_t results) {
  AxisPhase phase{.count = results};
  for (std::int64_t tap = 0; tap < axis.kernel; ++tap) {
    const std::int64_t pixel = tap * axis.dilation - axis.padding;
    const std::int64_t shift = divided_down(pixel, axis.stride);
    phase.taps.push_back({tap, shift, pixel - shift * axis.stride});
  }
  return phase;
}

// Tap k takes the gradient of result a to pixel u where u + padding = a * stride + k * dilation.
// The pixels of one remainder by the stride form a phase.
std::vector<AxisPhase> gradient_phases(const Axis& axis, std::int64_t pixels) {
  std::vector<AxisPhase> phases;
  for (std::int64_t rest = 0; rest < axis.stride; ++rest) {
    const std::int64_t a = ceil_div(std::max<std::int64_t>(axis.padding - rest, 0), axis.stride);
    AxisPhase phase{.first = a * axis.stride + rest - axis.padding};
    if (phase.first >= pixels) continue;
    phase.count = ceil_div(pixels - phase.first, axis.stride);
    for (std::int64_t tap = 0; tap < axis.kernel; ++tap) {
      const std::int64_t reach = tap * axis.dilation - rest;
      if (reach % axis.stride == 0) phase.taps.push_back({tap, a - reach / axis.stride});
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

// How far all phases reach along an axis.
struct Reach {
  std::int64_t before = 0, after = 0;  // beyond the image's ends
  std::int64_t behind = 0;             // from the first padded pixel to a result's own position
  std::int64_t most = 0;
};

Reach reach_of(const std::vector<AxisPhase>& phases, std::int64_t size) {
  Reach reach;
  std::int64_t last = 0;
  for (const AxisPhase& phase : phases) {
    reach.most = std::max(reach.most, phase.count);
    for (const AxisPhase::Tap& tap : phase.taps) {
      reach.before = std::max(reach.before, -tap.shift);
      reach.after = std::max(reach.after, phase.count + tap.shift - size);
      last = std::max(last, tap.shift);
    }
  }
  reach.behind = reach.before + last;
  return reach;
}

// The index of a plane, which is added if it is new.
std::int64_t number_of(const Size2d& plane, std::vector<Size2d>& planes) {
  const auto at = std::find(planes.begin(), planes.end(), plane);
  const std::int64_t number = at - planes.begin();
  if (at == planes.end()) planes.push_back(plane);
  return number;
}

Phase joined(const AxisPhase& rows, const AxisPhase& columns, TallImage& image,
             std::int64_t kernel_width) {
  Phase phase{.first = {rows.first, columns.first}, .count = {rows.count, columns.count}};
  for (const AxisPhase::Tap& row : rows.taps) {
    for (const AxisPhase::Tap& column : columns.taps) {
      const std::int64_t below = row.shift + image.padding.top;
      phase.taps.push_back({row.index * kernel_width + column.index,
                            number_of({row.plane, column.plane}, image.planes),
                            below * image.pitch() + column.shift + image.padding.left});
    }
  }
  return phase;
}

void add_phases(Plan& plan, const std::vector<AxisPhase>& rows,
                const std::vector<AxisPhase>& columns, std::int64_t kernel_width) {
  TallImage& image = plan.image;
  const Reach down = reach_of(rows, image.size.h);
  const Reach across = reach_of(columns, image.size.w);
  image.padding = {down.before, down.after, across.before, across.after};
  image.most = {down.most, across.most};
  image.rows_after = {down.behind, across.behind};
  for (const AxisPhase& row : rows) {
    for (const AxisPhase& column : columns) {
      plan.phases.push_back(joined(row, column, image, kernel_width));
    }
  }
  if (image.planes.empty()) image.planes.emplace_back();  // no result meets a tap
}

// Planes follow each other in a band's copy.
void place_planes(Plan& plan) {
  const std::int64_t positions = plan.positions();
  for (Phase& phase : plan.phases) {
    for (Phase::Tap& tap : phase.taps) tap.step += tap.plane * positions;
  }
}

// Rows per band, so that every thread gets equally many bands, unless there are fewer rows.
std::int64_t band_rows(const Plan& plan, int threads) {
  const TallImage& image = plan.image;
  const auto planes = static_cast<std::int64_t>(image.planes.size());
  const std::int64_t row_bytes = planes * image.pitch() * plan.inner * kBytes;
  const std::int64_t most = std::max<std::int64_t>(kBandBytes / row_bytes - image.rows_after.h, 1);
  const std::int64_t rounds = ceil_div(image.result_rows(), most * threads);
  return ceil_div(image.result_rows(), rounds * threads);
}

}  // namespace

std::int64_t TallImage::row_read(std::int64_t t, const Size2d& plane) const {
  const std::int64_t row = t - padding.top;
  if (row < 0 || row / image_rows() >= images) return kNone;
  const std::int64_t row_of_image = row % image_rows() * apart.h + plane.h;
  return row_of_image < whole.h ? row / image_rows() * whole.h + row_of_image : kNone;
}

bool Plan::is_possible() const {
  return image.most.w <= image.pitch() && image.most.h <= image.image_rows();
}

std::int64_t Plan::positions() const {
  return round_up(band * image.pitch(), kStrip) + image.rows_after.h * image.pitch() +
         image.rows_after.w;
}

std::int64_t Plan::pixel_of_row(const Phase& phase, std::int64_t t) const {
  const std::int64_t row = t % image.image_rows();
  if (row >= phase.count.h) return TallImage::kNone;
  const std::int64_t result = t / image.image_rows() * results.h + phase.first.h + row * stride.h;
  return result * results.w + phase.first.w;
}

Plan plan_for(const conv::Problem& p, int threads) {
  const bool is_forward = p.pass == conv::Pass::kForward;
  const Conv2dAttrs& attrs = p.attrs;
  const Shape& x = is_forward ? p.x : p.y;
  const Shape& y = is_forward ? p.y : p.x;
  const Size2d apart = is_forward ? attrs.stride : Size2d(1);
  const Size2d size{ceil_div(x[2], apart.h), ceil_div(x[3], apart.w)};
  Plan plan{.image = {.images = x[0], .whole = {x[2], x[3]}, .apart = apart, .size = size},
            .results = {y[2], y[3]},
            .stride = is_forward ? Size2d(1) : attrs.stride,
            .taps = p.weight[2] * p.weight[3],
            .inner = x[1],
            .outer = y[1]};
  const Axis down{p.weight[2], attrs.stride.h, attrs.dilation.h, attrs.padding.top};
  const Axis across{p.weight[3], attrs.stride.w, attrs.dilation.w, attrs.padding.left};
  if (is_forward) {
    add_phases(plan, {forward_phase(down, y[2])}, {forward_phase(across, y[3])}, p.weight[3]);
  } else {
    add_phases(plan, gradient_phases(down, y[2]), gradient_phases(across, y[3]), p.weight[3]);
  }
  plan.panel = std::min(plan.inner, kPanel);
  const std::int64_t fit = kWeightBytes / (plan.inner * plan.taps * kBytes) / kBlock * kBlock;
  const bool keeps_sums = plan.inner > plan.panel;
  const std::int64_t most = keeps_sums ? std::min(fit, kColumnsWithSums) : fit;
  plan.columns = std::min(std::max(most, kBlock), plan.outer);
  // The threads divide the larger of weight and images; each reads its part of it and all of the
  // other.
  const bool is_weight_larger = plan.outer * plan.taps > x[0] * x[2] * x[3];
  plan.band = band_rows(plan, is_weight_larger ? 1 : threads);
  plan.share = is_weight_larger ? ceil_div(plan.outer, kBlock * threads) * kBlock : plan.outer;
  place_planes(plan);
  return plan;
}

}  // namespace mezzo::kernels::direct
