#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/winograd_grad.cpp"
#include <array>
#include <optional>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/grad_weight-inl.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/winograd-inl.h"
#include "mezzo/kernels/cpu/winograd.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::WeightSteps;
using kernels::winograd::kPoints;
using kernels::winograd::point_distance;
using kernels::winograd::TileGroups;
using kernels::winograd::Tiling;
using kernels::winograd::WeightGradient;

// The sums of all points for some of the outputs, [point][panel of outputs][panel of
// inputs][kPanel][kPanel].
struct Sums {
  std::int64_t first_out = 0, out_panels = 0, in_panels = 0;  // first_out: the first panel

  std::int64_t square(std::int64_t out, std::int64_t in) const {
    return (out * in_panels + in) * kPanel * kPanel;
  }
  std::int64_t point() const { return point_distance(square(out_panels, 0)); }
  std::int64_t floats() const { return kPoints * point(); }
};

// Transformed tiles of the images and of the gradients by some of the outputs, as many as are added
// up at a time.
struct Operands {
  TileCopies x_copies, grad_copies;
  Tensor x, grad;

  Operands(std::int64_t in, std::int64_t outs, std::int64_t tiles)
      : x_copies(in, tiles),
        grad_copies(outs, tiles),
        x(empty({x_copies.floats()})),
        grad(empty({grad_copies.floats()})) {}
};

void read_images(const WeightGradient& gradient, const Tensor& x, const std::vector<Tile>& tiles,
                 const Operands& to) {
  const Tiling& tiling = gradient.tiling;
  float* const copies = to.x.mutable_data<float>();
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    const Tensor zero = zeros({gradient.in}, kDTypeOf<T>);
    const auto count = static_cast<std::int64_t>(tiles.size());
    parallel_for(count, 1, [&](std::int64_t first, std::int64_t last) {
      Squares<T, kTile> squares(x.data<T>(), tiling.image, gradient.in, gradient.in,
                                zero.data<T>());
      for (std::int64_t i = first; i < last; ++i) {
        const Tile& tile = tiles[static_cast<std::size_t>(i)];
        squares.move_to(tile.image, tile.row - tiling.top, tile.column - tiling.left);
        squares.template transform_to<ImageTransform>(to.x_copies, tile, i, copies);
      }
    });
  });
}

// Of the outputs from `first_out` on, as many as there is room for.
void read_gradients(const WeightGradient& gradient, const Tensor& grad, std::int64_t first_out,
                    const std::vector<Tile>& tiles, const Operands& to) {
  const Tiling& tiling = gradient.tiling;
  float* const copies = to.grad.mutable_data<float>();
  kernels::visit_vector_dtype(grad.dtype(), [&]<class T>() {
    const Tensor zero = zeros({gradient.out}, kDTypeOf<T>);
    const auto count = static_cast<std::int64_t>(tiles.size());
    parallel_for(count, 1, [&](std::int64_t first, std::int64_t last) {
      Squares<T, kResults> squares(grad.data<T>() + first_out, tiling.results,
                                   gradient.out - first_out, gradient.out, zero.data<T>());
      for (std::int64_t i = first; i < last; ++i) {
        const Tile& tile = tiles[static_cast<std::size_t>(i)];
        squares.move_to(tile.image, tile.row, tile.column);
        squares.template transform_to<ResultGradTransform>(to.grad_copies, tile, i, copies);
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
    for (int g = 0; g < groups; ++g) b[g] = m.x + (in + g) * operands.x_copies.panel();
    for (std::int64_t out = 0; out < layout.out_panels; ++out) {
      float* c[kMostGroups];
      for (int g = 0; g < groups; ++g) c[g] = m.sums + layout.square(out, in + g);
      Ahead none;
      multiply_panel<false>(groups, run, m.grad + out * operands.grad_copies.panel(), b, c, none);
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

// `is_begun`: of each point, whether its sums have been.
void add_tiles(const Operands& operands, const Sums& layout, const TileGroups& groups,
               std::array<bool, kPoints>& is_begun, float* sums) {
  const float* const x = operands.x.data<float>();
  const float* const grad = operands.grad.data<float>();
  parallel_for(kPoints, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t turn = begin; turn < end; ++turn) {
      // In some rows of points, fewer tiles have those: each thread gets some.
      constexpr std::int64_t kRows[kTile] = {0, 3, 1, 4, 2, 5};
      const std::int64_t i = kRows[turn / kTile] * kTile + turn % kTile;
      groups.for_tiles_with(static_cast<int>(i), [&](std::int64_t first, std::int64_t count) {
        const PointMatrices point{grad + i * operands.grad_copies.point() + first * kPanel,
                                  x + i * operands.x_copies.point() + first * kPanel,
                                  sums + i * layout.point()};
        bool& begun = is_begun[static_cast<std::size_t>(i)];
        add_point(operands, layout, point, count, !begun);
        begun = true;
      });
    }
  });
}

// One of the parts of all tiles.
struct TilePart {
  std::int64_t number = 0;
  bool images_are_read = false;
  float* sums = nullptr;
};

// Adds the products of the part to its sums.
void add_part(const WeightGradient& gradient, const Tensor& grad, const Tensor& x,
              const Sums& layout, const Operands& operands, const TilePart& part) {
  const std::int64_t count = gradient.tiling.tiles();
  const std::int64_t parts = gradient.parts();
  const std::int64_t end = count * (part.number + 1) / parts;
  const std::int64_t step = gradient.tiles_at_a_time();
  std::array<bool, kPoints> is_begun{};
  for (std::int64_t begin = count * part.number / parts; begin < end; begin += step) {
    const TileGroups groups(gradient.tiling, begin, std::min(end, begin + step));
    if (!part.images_are_read) read_images(gradient, x, groups.tiles(), operands);
    read_gradients(gradient, grad, layout.first_out * kPanel, groups.tiles(), operands);
    add_tiles(operands, layout, groups, is_begun, part.sums);
  }
  // Tiles that are all low or narrow leave points out.
  for (std::int64_t i = 0; i < kPoints; ++i) {
    if (!is_begun[static_cast<std::size_t>(i)]) {
      std::fill_n(part.sums + i * layout.point(), layout.point(), 0.0F);
    }
  }
}

// Brings the sums of the pairs of a panel of inputs with one output back to kernels of 3x3.
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

void write_all(const WeightGradient& gradient, const Sums& layout, const float* sums,
               const Tensor& out) {
  const WeightSteps steps = *kernels::weight_steps(out);
  float* const numbers = out.mutable_data<float>();
  const std::int64_t first_out = layout.first_out * kPanel;
  const std::int64_t outs = std::min(layout.out_panels * kPanel, gradient.out - first_out);
  parallel_for(outs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      for (std::int64_t panel = 0; panel < layout.in_panels; ++panel) {
        const std::int64_t in = panel * kPanel;
        write_kernels(sums + layout.square(o / kPanel, panel) + o % kPanel * kPanel, layout,
                      gradient.parts(), std::min(kPanel, gradient.in - in), steps,
                      numbers + (first_out + o) * gradient.in * kTaps * kTaps + in * steps.channel);
      }
    }
  });
}

}  // namespace

void gradient_by_weight(const WeightGradient& gradient, const Tensor& grad, const Tensor& x,
                        const Tensor& out) {
  const auto panels = [](std::int64_t channels) { return (channels + kPanel - 1) / kPanel; };
  const std::int64_t out_panels = panels(gradient.out);
  const std::int64_t parts = gradient.parts();
  Sums layout{0, std::min(gradient.panels_at_a_time(), out_panels), panels(gradient.in)};
  const auto room = [&] {
    return Operands(gradient.in, layout.out_panels * kPanel, gradient.tiles_at_a_time());
  };
  std::optional<Operands> shared;
  if (parts == 1) shared.emplace(room());
  const bool stay = gradient.tiles_at_a_time() >= gradient.tiling.tiles();
  const Tensor sums = empty({parts * layout.floats()});
  float* const all_sums = sums.mutable_data<float>();
  for (; layout.first_out < out_panels; layout.first_out += layout.out_panels) {
    layout.out_panels = std::min(layout.out_panels, out_panels - layout.first_out);
    parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
      const Operands operands = shared ? *shared : room();
      for (std::int64_t part = begin; part < end; ++part) {
        add_part(gradient, grad, x, layout, operands,
                 {part, stay && layout.first_out > 0, all_sums + part * layout.floats()});
      }
    });
    write_all(gradient, layout, all_sums, out);
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
