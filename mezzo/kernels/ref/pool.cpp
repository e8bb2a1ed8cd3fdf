#include <algorithm>
#include <cmath>
#include <limits>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/pool_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// Calls use(plane, row, column) for every window; `plane` counts the images of all channels.
template <class Use>
void for_each_window(const Shape& windows, Use use) {
  for (std::int64_t plane = 0; plane < windows[0] * windows[1]; ++plane) {
    for (std::int64_t row = 0; row < windows[2]; ++row) {
      for (std::int64_t column = 0; column < windows[3]; ++column) use(plane, row, column);
    }
  }
}

// Images of one size, and the windows over them.
struct Pool {
  Pool(const Pool2dAttrs& a, const Shape& image, const Shape& out)
      : attrs(a),
        windows(out),
        rows(rows_of(a, image[2], out[2])),
        columns(columns_of(a, image[3], out[3])) {}

  std::int64_t window(std::int64_t plane, std::int64_t row, std::int64_t column) const {
    return (plane * rows.out + row) * columns.out + column;
  }
  std::int64_t pixel(std::int64_t plane, std::int64_t h, std::int64_t w) const {
    return (plane * rows.in + h) * columns.in + w;
  }
  // Calls use(pixel, position in the window) for every pixel of a window.
  template <class Use>
  void for_each_pixel(std::int64_t plane, std::int64_t row, std::int64_t column, Use use) const {
    for (std::int64_t h = rows.first(row); h < rows.last(row); ++h) {
      for (std::int64_t w = columns.first(column); w < columns.last(column); ++w) {
        use(pixel(plane, h, w), (h - rows.start(row)) * attrs.kernel.w + w - columns.start(column));
      }
    }
  }

  const Pool2dAttrs& attrs;
  Shape windows;
  PoolAxis rows;
  PoolAxis columns;
};

// Calls use(window, pixel) where the position given for the window names a pixel.
template <class Use>
void for_each_position(const Pool& pool, const RefTensor& positions, Use use) {
  for_each_window(pool.windows, [&](std::int64_t plane, std::int64_t row, std::int64_t column) {
    const std::int64_t window = pool.window(plane, row, column);
    pool.for_each_pixel(plane, row, column, [&](std::int64_t pixel, std::int64_t position) {
      if (static_cast<double>(position) == positions[window]) use(window, pixel);
    });
  });
}

}  // namespace

extern const RefKernel max_pool2d = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& out = args.outputs[0];
  const Pool pool(args.attrs<Pool2dAttrs>(), x.shape, out.shape);
  for_each_window(pool.windows, [&](std::int64_t plane, std::int64_t row, std::int64_t column) {
    double best = -std::numeric_limits<double>::infinity();
    std::int64_t best_position = -1;
    pool.for_each_pixel(plane, row, column, [&](std::int64_t pixel, std::int64_t position) {
      if (best_position >= 0 && !(x[pixel] > best) && !std::isnan(x[pixel])) return;
      best = x[pixel];
      best_position = position;
    });
    const std::int64_t window = pool.window(plane, row, column);
    out[window] = best;
    args.outputs[1][window] = static_cast<double>(best_position);
  });
};

extern const RefKernel max_pool2d_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.outputs[0];
  std::ranges::fill(x.values(), 0);
  for_each_position(Pool(args.attrs<Pool2dAttrs>(), x.shape, grad.shape), args.inputs[1],
                    [&](std::int64_t window, std::int64_t pixel) { x[pixel] += grad[window]; });
};

extern const RefKernel max_pool2d_pick = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& out = args.outputs[0];
  std::ranges::fill(out.values(), 0);
  for_each_position(Pool(args.attrs<Pool2dAttrs>(), x.shape, out.shape), args.inputs[1],
                    [&](std::int64_t window, std::int64_t pixel) { out[window] = x[pixel]; });
};

extern const RefKernel avg_pool2d = [](const RefArgs& args) {
  const auto& attrs = args.attrs<Pool2dAttrs>();
  const RefTensor& x = args.inputs[0];
  const RefTensor& out = args.outputs[0];
  const Pool pool(attrs, x.shape, out.shape);
  for_each_window(pool.windows, [&](std::int64_t plane, std::int64_t row, std::int64_t column) {
    double total = 0;
    pool.for_each_pixel(plane, row, column,
                        [&](std::int64_t pixel, std::int64_t) { total += x[pixel]; });
    out[pool.window(plane, row, column)] =
        total / static_cast<double>(pool_divisor(attrs, pool.rows, pool.columns, row, column));
  });
};

extern const RefKernel avg_pool2d_grad = [](const RefArgs& args) {
  const auto& attrs = args.attrs<Pool2dAttrs>();
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.outputs[0];
  const Pool pool(attrs, x.shape, grad.shape);
  std::ranges::fill(x.values(), 0);
  for_each_window(pool.windows, [&](std::int64_t plane, std::int64_t row, std::int64_t column) {
    const double share =
        grad[pool.window(plane, row, column)] /
        static_cast<double>(pool_divisor(attrs, pool.rows, pool.columns, row, column));
    pool.for_each_pixel(plane, row, column,
                        [&](std::int64_t pixel, std::int64_t) { x[pixel] += share; });
  });
};

}  // namespace mezzo::kernels::ref
