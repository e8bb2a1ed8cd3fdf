#include "mezzo/kernels/cpu/conv/planar/planar_problem.h"

#include <utility>

namespace mezzo::kernels {

planar::Problem planar::problem_of(const conv::Problem& p) {
  return {.images = p.x[0],
          .in_channels = p.x[1],
          .out_channels = p.y[1],
          .x = {p.x[2], p.x[3]},
          .y = {p.y[2], p.y[3]},
          .kernel = {p.weight[2], p.weight[3]},
          .attrs = p.attrs};
}

planar::Problem planar::turned_problem_of(const conv::Problem& p) {
  Problem turned = problem_of(p);
  std::swap(turned.in_channels, turned.out_channels);
  std::swap(turned.x, turned.y);
  const Sides& padding = p.attrs.padding;
  const Size2d span = p.attrs.window(turned.kernel).span();
  turned.attrs.padding = {.top = span.h - 1 - padding.top, .left = span.w - 1 - padding.left};
  return turned;
}

row_sums::Problem row_sums::problem_of(const conv::Problem& p, bool by_dots) {
  return {.images = p.x[0],
          .channels = p.x[1],
          .out_channels = p.y[1],
          .image = {p.x[2], p.x[3]},
          .result = {p.y[2], p.y[3]},
          .kernel = {p.weight[2], p.weight[3]},
          .stride = p.attrs.stride,
          .padding = p.attrs.padding,
          .by_dots = by_dots};
}

}  // namespace mezzo::kernels
