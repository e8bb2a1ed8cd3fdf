#include "mezzo/kernels/cpu/conv/planar/planar_plan.h"

#include <algorithm>

#include "mezzo/core/math.h"

namespace mezzo::kernels::planar {
Plan::Plan(const Problem& p, std::int64_t vector_lanes, std::int64_t most_pixels)
    : problem(p),
      lanes(vector_lanes),
      rows(p.kernel.h, p.attrs.stride.h, p.attrs.dilation.h, p.attrs.padding.top),
      cols(p.kernel.w, p.attrs.stride.w, p.attrs.dilation.w, p.attrs.padding.left) {
  cut_chunks(most_pixels);
}

void Plan::cut_chunks(std::int64_t most_pixels) {
  const std::int64_t pixels = problem.y.h * problem.y.w;
  row_chunks = std::min(ceil_div(pixels, most_pixels), problem.y.h);
  chunk_rows = ceil_div(problem.y.h, row_chunks);
  row_chunks = ceil_div(problem.y.h, chunk_rows);
  // Chunks, and so parts, are of equal size.
  const std::int64_t most_images = std::max<std::int64_t>(1, most_pixels / pixels);
  chunk_images = ceil_div(problem.images, ceil_div(problem.images, most_images));
  chunks = ceil_div(problem.images, chunk_images) * row_chunks;
}

Chunk Plan::chunk(std::int64_t index) const {
  const std::int64_t image = index / row_chunks * chunk_images;
  const std::int64_t row = index % row_chunks * chunk_rows;
  return {image, std::min(image + chunk_images, problem.images), row,
          std::min(row + chunk_rows, problem.y.h)};
}

}  // namespace mezzo::kernels::planar
