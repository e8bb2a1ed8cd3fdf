// Tests on the host where kernels find their elements.
#include <gtest/gtest.h>

#include "mezzo/kernels/cuda/map.cuh"
#include "mezzo/kernels/cuda/rows.cuh"

namespace mezzo::kernels::cuda {
namespace {

TEST(CudaDims, LocatesEveryElementOnceAndWhereTheLoopDoes) {
  const Tensor x = empty({2, 3, 4, 5}, DType::kF32, Format::kChannelsLast);
  const Tensor y = empty({2, 3, 4, 5});
  const auto loop = make_loop<2>(x.shape(), {x.strides(), y.strides()});
  const Dims<2> dims(loop);
  std::vector<int> seen(static_cast<std::size_t>(x.numel()), 0);
  for (std::int64_t i = 0; i < loop.numel(); ++i) {
    for (const bool is_small : {true, false}) {
      std::int64_t at[2];
      dims.locate_any(i, is_small, at);
      EXPECT_EQ(at[0], offset_of(i, loop.sizes, loop.strides[0]));
      EXPECT_EQ(at[1], offset_of(i, loop.sizes, loop.strides[1]));
      seen[static_cast<std::size_t>(at[1])] += is_small ? 1 : 0;
    }
  }
  for (const int count : seen) EXPECT_EQ(count, 1);
}

TEST(CudaDims, LocatesBeyond32Bits) {
  Loop<1> loop;
  loop.sizes = {5, 1LL << 33};
  loop.strides[0] = {1LL << 40, 2};
  std::int64_t at[1];
  Dims<1>(loop).locate_any(3 * (1LL << 33) + 7, false, at);
  EXPECT_EQ(at[0], 3 * (1LL << 40) + 14);
}

TEST(CudaRows, StartWhereTheAxisSays) {
  const Shape shape{2, 3, 4, 5};
  for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
    const Strides strides = strides_for(shape, format);
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const Rows rows = rows_along(shape, axis, format);
      EXPECT_EQ(rows.count * rows.size, shape.numel());
      EXPECT_EQ(rows.inner, strides[axis]);
      std::vector<int> seen(static_cast<std::size_t>(shape.numel()), 0);
      for (std::int64_t row = 0; row < rows.count; ++row) {
        for (std::int64_t j = 0; j < rows.size; ++j) {
          ++seen[static_cast<std::size_t>(rows.start(row) + j * rows.inner)];
        }
      }
      for (const int count : seen) EXPECT_EQ(count, 1);
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels::cuda
