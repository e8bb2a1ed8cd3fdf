// Compares packed weights with the positions that oneDNN's descriptions give, and with casts, bit
// for bit.
#include "mezzo/kernels/cpu/onednn/pack_weight.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/cache_control.h>

#include "mezzo/core/cpu.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/onednn/pack_patch.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "tests/unit/special_values.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using dnnl::memory;
using kernels::onednn::blocked_weight;
using kernels::onednn::Desc;
using kernels::onednn::Temporary;

Desc layout(const Shape& dims, DType dtype, memory::format_tag tag) {
  return {memory::dims(dims.begin(), dims.end()), kernels::onednn::type_of(dtype), tag};
}

struct PackLayout {
  const char* name;
  DType dtype;
  memory::format_tag tag;
};

std::vector<PackLayout> pack_layouts() {
  using tag = memory::format_tag;
  return {{"o64", DType::kF32, tag::Ohwi64o},
          {"o16", DType::kF32, tag::Ohwi16o},
          {"i16o16", DType::kF32, tag::OIhw16i16o},
          {"o16i16", DType::kF32, tag::OIhw16o16i},
          {"i8o16i2", DType::kBf16, tag::OIhw8i16o2i},
          {"o8i16o2", DType::kBf16, tag::OIhw8o16i2o},
          {"i16o32i2", DType::kBf16, tag::OIhw16i32o2i},
          {"i16o64i2", DType::kBf16, tag::OIhw16i64o2i}};
}

std::vector<Shape> weight_shapes() {
  return {{64, 32, 1, 1}, {32, 64, 3, 3}, {96, 160, 1, 1}, {80, 96, 1, 3}, {192, 32, 5, 2}};
}

// The contents of the memory, including padding.
std::vector<std::uint8_t> bytes_of(const Temporary& packed) {
  const auto* const data = static_cast<const std::uint8_t*>(packed.memory.get_data_handle());
  return {data, data + packed.memory.get_desc().get_size()};
}

Tensor weight_with_special_values(const Shape& shape, Format format = Format::kContiguous) {
  manual_seed(3);
  const Tensor weight = empty(shape, DType::kF32, format);
  copy_elements(randn(shape), weight);
  float* const data = weight.mutable_data<float>();
  std::int64_t i = 0;
  for (const float value :
       {kInf, -kInf, kNan, 0.0F, -0.0F, 1e-40F, -1e-40F, 3.4e38F, 1.00390625F}) {
    data[7 * i++] = value;  // infinite in bf16, subnormal, halfway between two values
  }
  return weight;
}

// The offset of the element at `at` in a blocked layout, as dnnl_blocking_desc_t defines it.
std::int64_t place_in(const Desc& desc, Shape at) {
  const kernels::onednn::Layout to = kernels::onednn::layout_of(desc);
  std::int64_t place = 0;
  std::int64_t size = 1;
  for (int i = to.block_count; i-- > 0;) {
    std::int64_t& index = at[static_cast<std::size_t>(to.block_axes[i])];
    place += index % to.block_sizes[i] * size;
    size *= to.block_sizes[i];
    index /= to.block_sizes[i];
  }
  for (std::size_t axis = 0; axis < at.rank(); ++axis) place += at[axis] * to.strides[axis];
  return place;
}

// The packed weight, element by element, with zeros in between.
std::vector<std::uint8_t> expected_bytes(const Tensor& weight, const Shape& dims,
                                         const Shape& strides, const Desc& wanted, DType dtype) {
  const std::size_t size = size_of(dtype);
  const Tensor rounded = cast(weight, dtype);
  const auto* const from = static_cast<const std::uint8_t*>(rounded.raw_data());
  std::vector<std::uint8_t> bytes(wanted.get_size());
  for (std::int64_t flat = 0; flat < dims.numel(); ++flat) {
    Shape at = dims;
    std::int64_t rest = flat;
    std::int64_t source = 0;
    for (std::size_t axis = dims.rank(); axis-- > 0; rest /= dims[axis]) {
      at[axis] = rest % dims[axis];
      source += at[axis] * strides[axis];
    }
    const auto to = static_cast<std::size_t>(place_in(wanted, at)) * size;
    std::memcpy(&bytes[to], from + static_cast<std::size_t>(source) * size, size);
  }
  return bytes;
}

// Packs the last patch first.
void pack_by_patches(const kernels::onednn::BlockedWeight& blocked, const Tensor& weight,
                     void* to) {
  const PatchGrid grid = grid_of(blocked);
  ASSERT_GT(grid.rows, 0);
  ASSERT_EQ(weight.numel() % (grid.rows * grid.row_elements), 0);
  ASSERT_EQ(grid.row_elements % grid.columns, 0);
  ASSERT_TRUE(!grid.is_rounded || grid.rows * grid.columns <= kMostRounded);
  const auto* const numbers = weight.data<float>();
  std::vector<BFloat16> rounded(kMostRounded);
  for (std::int64_t row = weight.numel() / grid.row_elements; (row -= grid.rows) >= 0;) {
    for (std::int64_t column = grid.row_elements; (column -= grid.columns) >= 0;) {
      for (std::int64_t i = 0; i < grid.rows * grid.columns && grid.is_rounded; ++i) {
        const std::int64_t at = (row + i / grid.columns) * grid.row_elements + column;
        rounded[static_cast<std::size_t>(i)] = BFloat16(numbers[at + i % grid.columns]);
      }
      pack_patch(blocked, grid, {row, column, numbers, rounded.data()}, to);
    }
  }
  hwy::FlushStream();
}

// Returns false if the sizes are not whole vectors.
bool expect_packed(const Tensor& weight, const Shape& dims, const Shape& strides,
                   const PackLayout& to) {
  const Desc wanted = layout(dims, to.dtype, to.tag);
  const auto blocked = blocked_weight(dims, strides, wanted);
  if (!blocked) return false;
  const Temporary packed(wanted);
  std::memset(packed.memory.get_data_handle(), 0xff, wanted.get_size());
  pack_weight(*blocked, weight.data<float>(), packed.memory.get_data_handle());
  const std::vector<std::uint8_t> expected =
      expected_bytes(weight, dims, strides, wanted, to.dtype);
  EXPECT_EQ(bytes_of(packed), expected) << to.name << " of " << concat(dims, strides);
  const Temporary patched(wanted);
  std::memset(patched.memory.get_data_handle(), 0xff, wanted.get_size());
  pack_by_patches(*blocked, weight, patched.memory.get_data_handle());
  EXPECT_EQ(bytes_of(patched), expected) << to.name << " by patches of " << concat(dims, strides);
  return true;
}

TEST(PackWeight, PutsEveryNumberInItsPlace) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  for (const int threads : {1, 3}) {
    const test::Threads guard(threads);
    int compared = 0;
    for (const Shape& shape : weight_shapes()) {
      for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
        const Tensor weight = weight_with_special_values(shape, format);
        const Strides& s = weight.strides();
        for (const PackLayout& to : pack_layouts()) {
          compared += expect_packed(weight, shape, s, to) ? 1 : 0;
          // The transpose, as gradients with respect to the input need it.
          const Shape turned{shape[1], shape[0], shape[2], shape[3]};
          compared += expect_packed(weight, turned, {s[1], s[0], s[2], s[3]}, to) ? 1 : 0;
        }
      }
    }
    EXPECT_GE(compared, 140);  // of 160: 80 is no multiple of 32
  }
}

TEST(PackWeight, HasNoPatchesOfWeightsThatLieInAnotherWay) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  const Shape dims{64, 32, 3, 5};
  const Desc wanted = layout(dims, DType::kBf16, memory::format_tag::OIhw16i32o2i);
  const auto rows_of = [&](const Shape& strides) {
    const auto blocked = blocked_weight(dims, strides, wanted);
    return blocked ? grid_of(*blocked).rows : -1;
  };
  EXPECT_GT(rows_of({480, 1, 160, 32}), 0);     // channels-last
  EXPECT_GT(rows_of({480, 15, 5, 1}), 0);       // contiguous
  EXPECT_EQ(rows_of({480, 1, 32, 96}), 0);      // kernel columns before rows
  EXPECT_EQ(rows_of({480, 1, 192, 32}), 0);     // kernel rows further apart
  EXPECT_EQ(rows_of({960, 1, 160, 32}), 0);     // another axis in between
  EXPECT_EQ(rows_of({1, 64, 10240, 2048}), 0);  // all input channels of a tap, then the next tap
}

TEST(PackWeight, TakesTheLayoutsOfTheKernelsThereAre) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  for (const PackLayout& to : pack_layouts()) {
    const Shape dims{64, 64, 3, 3};
    EXPECT_TRUE(blocked_weight(dims, strides_for(dims, Format::kContiguous),
                               layout(dims, to.dtype, to.tag)))
        << to.name;
  }
}

TEST(PackWeight, LeavesOtherLayoutsAndOddSizesAlone) {
  using tag = memory::format_tag;
  const auto takes = [](const Shape& dims, DType dtype, tag to) {
    const Shape strides = strides_for(dims, Format::kContiguous);
    return blocked_weight(dims, strides, layout(dims, dtype, to)).has_value();
  };
  EXPECT_FALSE(takes({64, 64, 3, 3}, DType::kF32, tag::oihw));
  EXPECT_FALSE(takes({64, 64, 3, 3}, DType::kF32, tag::OIhw4i16o4i));
  EXPECT_FALSE(takes({67, 64, 3, 3}, DType::kF32, tag::OIhw16i16o));
  EXPECT_FALSE(takes({64, 35, 3, 3}, DType::kF32, tag::OIhw16i16o));
  EXPECT_FALSE(takes({64, 35, 3, 3}, DType::kBf16, tag::OIhw8i16o2i));
}

TEST(PackWeight, ComesBackAsItWas) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  for (const Shape& dims : {Shape{96, 160, 1, 1}, Shape{64, 32, 3, 2}}) {
    const Tensor weight = weight_with_special_values(dims, Format::kChannelsLast);
    const Desc wanted = layout(dims, DType::kF32, memory::format_tag::OIhw16i16o);
    const auto blocked = blocked_weight(dims, weight.strides(), wanted);
    ASSERT_TRUE(blocked && can_unpack(*blocked));
    const Temporary packed(wanted);
    pack_weight(*blocked, weight.data<float>(), packed.memory.get_data_handle());
    const Tensor back = empty(dims, DType::kF32, Format::kChannelsLast);
    unpack_weight(*blocked, packed.memory.get_data_handle(), back.mutable_data<float>());
    EXPECT_EQ(std::memcmp(back.raw_data(), weight.raw_data(), weight.bytes()), 0) << concat(dims);
  }
}

TEST(PackWeight, CanBeDisabled) {
  const Shape dims{64, 64, 1, 1};
  const Desc wanted = layout(dims, DType::kF32, memory::format_tag::OIhw16i16o);
  disable_kernels({"cpu_pack"});
  EXPECT_FALSE(blocked_weight(dims, strides_for(dims, Format::kContiguous), wanted));
  disable_kernels({});
}

}  // namespace
}  // namespace mezzo
