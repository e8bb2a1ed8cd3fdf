// Tests what oneDNN 2.6 and oneDNN 3 express differently, through results that are the same.
#include "mezzo/kernels/cpu/onednn/onednn_api.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mezzo::kernels::onednn {
namespace {

using dnnl::memory;
using testing::ElementsAre;

constexpr auto kF32 = memory::data_type::f32;

struct Convolution {
  memory::dims stride{2, 2}, dilation{0, 0}, before{1, 1}, after{0, 0};
  memory::desc x{{2, 16, 8, 8}, kF32, memory::format_tag::nhwc};
  memory::desc weight{{32, 16, 3, 3}, kF32, memory::format_tag::any};
  memory::desc bias;  // none
  memory::desc y{{2, 32, 4, 4}, kF32, memory::format_tag::nhwc};
};

dnnl::engine cpu() { return {dnnl::engine::kind::cpu, 0}; }

dnnl::convolution_forward::primitive_desc forward_of(const Convolution& c) {
  return describe_primitive<dnnl::convolution_forward>(
      cpu(), dnnl::primitive_attr(), dnnl::prop_kind::forward_training,
      dnnl::algorithm::convolution_direct, c.x, c.weight, c.bias, c.y, c.stride, c.dilation,
      c.before, c.after);
}

std::vector<dnnl_dim_t> numbers(const dnnl_dim_t* from, int count) { return {from, from + count}; }

TEST(OnednnApi, ALayoutIsThatOfItsTag) {
  const memory::desc blocks({64, 24, 3, 1}, memory::data_type::bf16,
                            memory::format_tag::OIhw16i32o2i);
  const Layout layout = layout_of(blocks);
  EXPECT_EQ(layout.type, dnnl_bf16);
  EXPECT_EQ(layout.kind, dnnl_blocked);
  EXPECT_EQ(layout.offset, 0);
  EXPECT_EQ(layout.extra, 0U);
  EXPECT_THAT(numbers(layout.dims, layout.rank), ElementsAre(64, 24, 3, 1));
  EXPECT_THAT(numbers(layout.padded_dims, layout.rank), ElementsAre(64, 32, 3, 1));
  EXPECT_THAT(numbers(layout.strides, layout.rank), ElementsAre(3072, 3072, 1024, 1024));
  EXPECT_THAT(numbers(layout.block_axes, layout.block_count), ElementsAre(1, 0, 1));
  EXPECT_THAT(numbers(layout.block_sizes, layout.block_count), ElementsAre(16, 32, 2));
}

TEST(OnednnApi, ALayoutWithoutBlocksHasStrides) {
  const memory::desc plain({4, 3}, kF32, memory::dims{1, 8});
  const Layout layout = layout_of(plain);
  EXPECT_EQ(layout.kind, dnnl_blocked);
  EXPECT_EQ(layout.block_count, 0);
  EXPECT_THAT(numbers(layout.strides, layout.rank), ElementsAre(1, 8));
}

TEST(OnednnApi, AnyLayoutHasNoStrides) {
  const memory::desc any({4, 3}, kF32, memory::format_tag::any);
  const Layout layout = layout_of(any);
  EXPECT_EQ(layout.kind, dnnl_format_kind_any);
  EXPECT_THAT(numbers(layout.dims, layout.rank), ElementsAre(4, 3));
}

TEST(OnednnApi, StridesThatAreRefusedMakeAZeroDescription) {
  EXPECT_FALSE(describe_or_zero({4, 3}, kF32, {3, 1}).is_zero());
  // Every other one of 5 rows of 4 elements, in two matrices: the third row reaches into the next
  // matrix.
  EXPECT_TRUE(describe_or_zero({2, 3, 4}, kF32, {20, 8, 1}).is_zero());
}

TEST(OnednnApi, AConvolutionIsDescribedWithItsGradients) {
  const Convolution c;
  const auto forward = forward_of(c);
  ASSERT_TRUE(forward);
  EXPECT_EQ(forward.dst_desc(), c.y);
  const auto by_input = describe_gradient<dnnl::convolution_backward_data>(
      cpu(), dnnl::primitive_attr(), forward, dnnl::algorithm::convolution_direct, c.x, c.weight,
      c.y, c.stride, c.dilation, c.before, c.after);
  ASSERT_TRUE(by_input);
  EXPECT_EQ(by_input.diff_src_desc(), c.x);
  const auto by_weight = describe_gradient<dnnl::convolution_backward_weights>(
      cpu(), dnnl::primitive_attr(), forward, dnnl::algorithm::convolution_direct, c.x, c.weight,
      c.y, c.stride, c.dilation, c.before, c.after);
  ASSERT_TRUE(by_weight);
  const memory::desc weight = by_weight.diff_weights_desc();
  EXPECT_EQ(layout_of(weight).kind, dnnl_blocked);  // the layout is now chosen
}

TEST(OnednnApi, WhatOnednnDoesNotHaveIsFalse) {
  Convolution c;
  c.y = memory::desc({2, 32, 4, 4}, memory::data_type::u8, memory::format_tag::nhwc);
  EXPECT_FALSE(forward_of(c));  // f32 sums cannot be stored as u8
}

TEST(OnednnApi, AProductIsDescribedWithABiasAndWithout) {
  const memory::desc a({5, 7}, kF32, memory::dims{7, 1});
  const memory::desc b({7, 3}, kF32, memory::dims{3, 1});
  const memory::desc bias({1, 3}, kF32, memory::dims{3, 1});
  const memory::desc out({5, 3}, kF32, memory::dims{3, 1});
  const auto plain = describe_primitive<dnnl::matmul>(cpu(), dnnl::primitive_attr(), a, b, out);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain.bias_desc().is_zero());
  const auto biased =
      describe_primitive<dnnl::matmul>(cpu(), dnnl::primitive_attr(), a, b, bias, out);
  ASSERT_TRUE(biased);
  EXPECT_EQ(biased.bias_desc(), bias);
}

TEST(OnednnApi, ABatchNormHasAGradient) {
  const Convolution c;
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  const auto forward = describe_norm(cpu(), dnnl::prop_kind::forward_training, c.x, 1e-5F, flags);
  const auto backward = describe_norm_gradient(cpu(), forward, c.x, 1e-5F, flags);
  EXPECT_EQ(forward.dst_desc(), c.x);
  EXPECT_EQ(backward.diff_src_desc(), c.x);
}

}  // namespace
}  // namespace mezzo::kernels::onednn
