// Convolutions for the tests of kernels for few channels.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/shape.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::test {

struct PlanarCase {
  Shape x;  // [n, c, h, w]
  std::int64_t out_channels;
  Size2d kernel;
  Conv2dAttrs attrs{};

  Shape y() const {
    const Size2d size = attrs.window(kernel).output_size({x[2], x[3]}, "conv2d");
    return {x[0], out_channels, size.h, size.w};
  }
  Shape weight() const { return {out_channels, x[1], kernel.h, kernel.w}; }
};

// All pairs of these numbers of channels, with every kernel, padding, stride and dilation, on small
// images.
inline std::vector<PlanarCase> small_planar_cases(const std::vector<std::int64_t>& in_channels,
                                                  const std::vector<std::int64_t>& out_channels) {
  const Conv2dAttrs padded{.padding = {3, 2, 1, 3}};
  const Conv2dAttrs strided{.stride = 2, .padding = {3, 3, 3, 3}};
  const Conv2dAttrs wide{.stride = {1, 3}, .padding = {0, 3, 3, 2}, .dilation = {1, 2}};
  const Conv2dAttrs dilated{.stride = {3, 2}, .padding = {4, 4, 5, 4}, .dilation = 2};
  const Conv2dAttrs attrs[] = {padded, strided, wide, dilated};
  const Size2d kernels[] = {{1, 1}, {3, 3}, {5, 5}, {7, 7}, {1, 7}, {4, 2}, {2, 3}};
  std::vector<PlanarCase> cases;
  for (const std::int64_t in : in_channels) {
    for (const std::int64_t out : out_channels) {
      const std::size_t i = cases.size();
      const auto height = static_cast<std::int64_t>(9 + i % 3);
      const auto width = static_cast<std::int64_t>(14 + i % 5);
      const std::int64_t n = i % 5 == 0 ? 17 : i % 2 == 0 ? 2 : 1;
      cases.push_back({{n, in, height, width}, out, kernels[i % 7], attrs[i % 4]});
    }
  }
  return cases;
}

// A single pixel. Rows longer than a chunk, and several chunks of rows. More channels than are
// copied at a time. More padding than kernel. Rows and columns that no output reads.
inline std::vector<PlanarCase> odd_planar_cases() {
  return {
      {{1, 1, 1, 1}, 1, {1, 1}},
      {{17, 3, 1, 1}, 5, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{2, 6, 1, 40}, 8, {1, 5}, {.padding = {0, 0, 2, 2}}},
      {{1, 3, 33, 47}, 8, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{2, 3, 33, 47}, 7, {7, 7}, {.stride = 2, .padding = {3, 3, 3, 3}}},
      {{17, 1, 28, 28}, 6, {5, 5}, {.padding = {2, 2, 2, 2}}},
      {{3, 1, 40, 1100}, 2, {3, 3}},
      {{2, 40, 9, 7}, 3, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{1, 131, 40, 41}, 2, {3, 3}},
      {{2, 1, 16, 17}, 4, {2, 2}, {.stride = 5}},
      {{1, 5, 3, 3}, 6, {5, 5}, {.padding = {4, 4, 4, 4}}},
  };
}

}  // namespace mezzo::test
