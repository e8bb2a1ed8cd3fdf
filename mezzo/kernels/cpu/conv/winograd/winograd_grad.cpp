#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/winograd/winograd_grad.cpp"
#include <array>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight-inl.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd-inl.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd.h"
#include "mezzo/kernels/cpu/loops/layout.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::WeightSteps;
using kernels::winograd::kPoints;
using kernels::winograd::point_distance;
using kernels::winograd::TileGroups;
using kernels::winograd::WeightGradient;

// The sums of all points for some of the outputs, laid out as [point][panel of outputs][panel of
// inputs][kPanel][kPanel].
struct Sums {
  std::int64_t first_out = 0, out_panels = 0, in_panels = 0;  // first_out: the first panel

  std::int64_t square(std::int64_t out, std::int64_t in) const {
    return (out * in_panels + in) * kPanel * kPanel;
  }
  std::int64_t point() const { return point_distance(square(out_panels, 0)); }
  std::int64_t floats() const { return kPoints * point(); }
};

// Transformed tiles of the images, and of the gradients of some of the outputs.
struct Operands {
  Copies x, grad;
};

// Transforms some tiles of the gradient: outputs from `first_out` on, as many as `to` holds.
void read_gradients(const WeightGradient& gradient, const Tensor& grad, std::int64_t first_out,
                    const std::vector<Tile>& tiles, const Copies& to) {
  const Tiling& tiling = gradient.tiling;
  float* const copies = to.numbers.mutable_data<float>();
  kernels::visit_vector_dtype(grad.dtype(), [&]<class T>() {
    const Tensor zero = zeros({gradient.out}, kDTypeOf<T>);
    const auto count = static_cast<std::int64_t>(tiles.size());
    parallel_for(count, 1, [&](std::int64_t first, std::int64_t last) {
      Squares<T, kResults> squares(grad.data<T>() + first_out, tiling.results,
                                   gradient.out - first_out, gradient.out, zero.data<T>());
      for (std::int64_t i = first; i < last; ++i) {
        const Tile& tile = tiles[static_cast<std::size_t>(i)];
        squares.move_along(tiles, i, 0, 0);
        squares.template transform_to<ResultGradTransform>(to.layout, tile, i, copies);
      }
    });
  });
}

// The matrices of one point: transformed gradients and images, and the sums of their products.
struct PointMatrices {
  const float* grad;
  const float* x;
  float* sums;
};

// Adds the products of a run of tiles at one point to its sums, or begins them.
void add_run(const Operands& operands, const Sums& layout, const PointMatrices& m,
             const VectorRun& run) {
  for (std::int64_t in = 0; in < layout.in_panels; in += kMostGroups) {
    const auto groups =
        static_cast<int>(std::min<std::int64_t>(kMostGroups, layout.in_panels - in));
    const float* b[kMostGroups];
    for (int g = 0; g < groups; ++g) b[g] = m.x + (in + g) * operands.x.layout.panel();
    for (std::int64_t out = 0; out < layout.out_panels; ++out) {
      float* c[kMostGroups];
      for (int g = 0; g < groups; ++g) c[g] = m.sums + layout.square(out, in + g);
      Ahead none;
      multiply_panel<false>(groups, run, m.grad + out * operands.grad.layout.panel(), b, c, none);
    }
  }
}

void add_point(const Operands& operands, const Sums& layout, const PointMatrices& m,
               std::int64_t count, bool first) {
  for_parts({.slots = 1, .rows = 1, .pixels = count, .first = first},
            [&](const VectorRun& run, std::int64_t in_grad, std::int64_t in_x) {
              add_run(operands, layout, {m.grad + in_grad, m.x + in_x, m.sums}, run);
            });
}

// The sums of all points. The first tiles that have a point begin its sums.
class PointSums {
 public:
  PointSums(const Sums& layout, float* numbers) : layout_(layout), numbers_(numbers) {}

  void add(const Operands& operands, const TileGroups& groups) {
    parallel_for(kPoints, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t turn = begin; turn < end; ++turn) {
        // Fewer tiles have the points of some rows; this order gives each thread some of these.
        constexpr std::int64_t kRows[kTile] = {0, 3, 1, 4, 2, 5};
        add_at(kRows[turn / kTile] * kTile + turn % kTile, operands, groups);
      }
    });
  }

  // Writes zeros for points that no tile had, as in low or narrow images.
  void finish() const {
    for (std::int64_t i = 0; i < kPoints; ++i) {
      if (is_begun_[static_cast<std::size_t>(i)]) continue;
      std::fill_n(numbers_ + i * layout_.point(), layout_.point(), 0.0F);
    }
  }

 private:
  void add_at(std::int64_t point, const Operands& operands, const TileGroups& groups) {
    groups.for_tiles_with(static_cast<int>(point), [&](std::int64_t first, std::int64_t count) {
      const PointMatrices matrices{operands.grad.at(point) + first * kPanel,
                                   operands.x.at(point) + first * kPanel,
                                   numbers_ + point * layout_.point()};
      bool& is_begun = is_begun_[static_cast<std::size_t>(point)];
      add_point(operands, layout_, matrices, count, !is_begun);
      is_begun = true;
    });
  }

  const Sums& layout_;
  float* numbers_;
  std::array<bool, kPoints> is_begun_{};
};

// Transforms the sums of a panel of inputs with one output back to 3x3 kernels.
void write_kernels(const float* sums, const Sums& layout, std::int64_t parts, std::int64_t count,
                   const WeightSteps& steps, float* out) {
  float taps[kTaps * kTaps][kPanel];
  for (std::int64_t lane = 0; lane < kPanel; lane += kMaxLanes) {
    transform<KernelGradTransform>(
        [&](int i, int j) HWY_ATTR {
          const float* const from = sums + (i * kTile + j) * layout.point() + lane;
          F32Vec sum = load(from);
          for (std::int64_t part = 1; part < parts; ++part) {
            sum = hn::Add(sum, load(from + part * layout.floats()));
          }
          return sum;
        },
        [&](int i, int j, F32Vec v) HWY_ATTR { store(v, taps[i * kTaps + j] + lane); });
  }
  for (int tap = 0; tap < kTaps * kTaps; ++tap) {
    float* const to = out + tap * steps.tap;
    for (std::int64_t i = 0; i < count; ++i) to[i * steps.channel] = taps[tap][i];
  }
}

// Writes the kernels of all pairs of channels. `sums` has `parts` parts, which are added up.
void write_all(const WeightGradient& gradient, const Sums& layout, const float* sums,
               std::int64_t parts, const Tensor& out) {
  const WeightSteps steps = *kernels::weight_steps(out);
  float* const numbers = out.mutable_data<float>();
  const std::int64_t first_out = layout.first_out * kPanel;
  const std::int64_t outs = std::min(layout.out_panels * kPanel, gradient.out - first_out);
  parallel_for(outs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      for (std::int64_t panel = 0; panel < layout.in_panels; ++panel) {
        const std::int64_t in = panel * kPanel;
        write_kernels(sums + layout.square(o / kPanel, panel) + o % kPanel * kPanel, layout, parts,
                      std::min(kPanel, gradient.in - in), steps,
                      numbers + (first_out + o) * gradient.in * kTaps * kTaps + in * steps.channel);
      }
    }
  });
}

// The inputs and the output of a gradient.
struct Call {
  const WeightGradient& gradient;
  const Tensor& grad;
  const Tensor& x;
  const Tensor& out;

  std::int64_t in_panels() const { return panels(gradient.in); }
  std::int64_t out_panels() const { return panels(gradient.out); }

 private:
  static std::int64_t panels(std::int64_t channels) { return ceil_div(channels, kPanel); }
};

// Adds up the tiles [begin, end), a group at a time, for the outputs that the operands hold.
void add_tiles(const Call& call, const Sums& layout, const Operands& operands, std::int64_t begin,
               std::int64_t end, float* numbers) {
  PointSums sums(layout, numbers);
  const std::int64_t step = operands.x.layout.tiles;
  for (; begin < end; begin += step) {
    const TileGroups groups(call.gradient.tiling, begin, std::min(end, begin + step));
    read_images(call.gradient.tiling, call.x, groups.tiles(), operands.x);
    read_gradients(call.gradient, call.grad, layout.first_out * kPanel, groups.tiles(),
                   operands.grad);
    sums.add(operands, groups);
  }
  sums.finish();
}

// Divides tiles among threads; each sums its own.
void add_by_tiles(const Call& call) {
  const std::int64_t count = call.gradient.tiling.tiles();
  const std::int64_t parts = call.gradient.parts();
  const std::int64_t step = call.gradient.tiles_at_a_time();
  const Sums layout{0, call.out_panels(), call.in_panels()};
  const Tensor sums = empty({parts * layout.floats()});
  float* const numbers = sums.mutable_data<float>();
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const Operands operands{Copies(call.gradient.in, step), Copies(call.gradient.out, step)};
    for (std::int64_t part = begin; part < end; ++part) {
      add_tiles(call, layout, operands, count * part / parts, count * (part + 1) / parts,
                numbers + part * layout.floats());
    }
  });
  write_all(call.gradient, layout, numbers, parts, call.out);
}

// Divides outputs among threads; each sums all tiles.
void add_by_outputs(const Call& call) {
  const std::int64_t count = call.gradient.tiling.tiles();
  const std::int64_t out_panels = call.out_panels();
  // Two panels at a time read the images half as often.
  const std::int64_t step = out_panels / 2 >= num_threads() ? 2 : 1;
  const TileGroups groups(call.gradient.tiling, 0, count);
  const Copies images(call.gradient.in, count);
  read_images(call.gradient.tiling, call.x, groups.tiles(), images);
  parallel_for(ceil_div(out_panels, step), 1, [&](std::int64_t begin, std::int64_t end) {
    const Operands operands{images, Copies(step * kPanel, count)};
    Sums layout{0, step, call.in_panels()};
    const Tensor sums = empty({layout.floats()});
    float* const numbers = sums.mutable_data<float>();
    for (std::int64_t i = begin; i < end; ++i) {
      layout.first_out = i * step;
      layout.out_panels = std::min(step, out_panels - layout.first_out);
      read_gradients(call.gradient, call.grad, layout.first_out * kPanel, groups.tiles(),
                     operands.grad);
      PointSums points(layout, numbers);
      points.add(operands, groups);
      points.finish();
      write_all(call.gradient, layout, numbers, 1, call.out);
    }
  });
}

// Divides points among threads; all work on the same group of tiles.
void add_by_points(const Call& call) {
  const std::int64_t out_panels = call.out_panels();
  const std::int64_t step = call.gradient.tiles_at_a_time();
  Sums layout{0, std::min(call.gradient.panels_at_a_time(), out_panels), call.in_panels()};
  const Operands operands{Copies(call.gradient.in, step), Copies(layout.out_panels * kPanel, step)};
  const Tensor sums = empty({layout.floats()});
  float* const numbers = sums.mutable_data<float>();
  for (; layout.first_out < out_panels; layout.first_out += layout.out_panels) {
    layout.out_panels = std::min(layout.out_panels, out_panels - layout.first_out);
    add_tiles(call, layout, operands, 0, call.gradient.tiling.tiles(), numbers);
    write_all(call.gradient, layout, numbers, 1, call.out);
  }
}

}  // namespace

void gradient_by_weight(const WeightGradient& gradient, const Tensor& grad, const Tensor& x,
                        const Tensor& out) {
  if constexpr (kRunsAvx2Kernels) {
    const Call call{gradient, grad, x, out};
    if (gradient.parts() > 1) return add_by_tiles(call);
    if (gradient.has_large_sums()) return add_by_outputs(call);
    add_by_points(call);
  } else {
    kernels::fail_without_avx2();
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::winograd {

HWY_EXPORT(gradient_by_weight);

void gradient_by_weight(const WeightGradient& gradient, const Tensor& grad, const Tensor& x,
                        const Tensor& out) {
  HWY_DYNAMIC_DISPATCH(gradient_by_weight)(gradient, grad, x, out);
}

}  // namespace mezzo::kernels::winograd
#endif
