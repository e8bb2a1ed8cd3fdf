// Compares every op in every vector dtype and layout on a device with its reference kernel in
// double.
#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/argsort_attrs.h"
#include "mezzo/ops/attention_grad.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/compare_attrs.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/cumsum_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/group_norm_attrs.h"
#include "mezzo/ops/indexing_attrs.h"
#include "mezzo/ops/layer_norm_attrs.h"
#include "mezzo/ops/losses_attrs.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/reduce_attrs.h"
#include "mezzo/ops/rope_attrs.h"
#include "mezzo/ops/triangular_attrs.h"
#include "mezzo/ops/upsample_attrs.h"
#include "tests/sweep/sweep.h"
#include "tests/unit/cuda/card.h"

namespace mezzo::sweep {
namespace {

class EveryOpOnCuda : public testing::TestWithParam<const OpDef*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryOpOnCuda);

TEST(Cuda, HasACard) {
  if (!has_device(kCard)) GTEST_SKIP() << "there is no CUDA card: the sweep over it is skipped";
  EXPECT_FALSE(backend_of(kCard).describe(kCard).empty());
}

// Without a device there is nothing to run, which one line reports.
std::vector<const OpDef*> ops_to_try() {
  return has_device(kCard) ? all_ops() : std::vector<const OpDef*>{};
}

TEST_P(EveryOpOnCuda, AgreesWithTheReferenceInEveryDTypeAndLayout) {
  expect_agreement(*GetParam(), kCard);
}

TEST_P(EveryOpOnCuda, IsExactOnSmallIntegersIfItSaysSo) { expect_exactness(*GetParam(), kCard); }

// The same call twice gives the same bits: the order of additions never depends on timing.
TEST_P(EveryOpOnCuda, GivesTheSameBitsTwice) {
  const OpDef& op = *GetParam();
  if (op.infer == nullptr) return;
  for (const Sample& sample : op.samples()) {
    std::vector<Tensor> inputs = make_inputs(op, sample, DType::kF32);
    for (Tensor& input : inputs) input = on_device(input, kCard);
    const std::vector<const Tensor*> in = pointers(inputs);
    const Outputs first = call(op, in, sample.attrs);
    const Outputs second = call(op, in, sample.attrs);
    for (std::size_t k = 0; k < first.size(); ++k) {
      EXPECT_EQ(first[k].to_vector<float>(), second[k].to_vector<float>()) << op.name;
    }
  }
}

// Shapes that several blocks of threads share, where the sweep's small ones fit into one: ranges of
// sums, tiles, rows of whole blocks, and a remainder everywhere.
struct Large {
  const char* op;
  Sample sample;
};

std::vector<Large> large_calls() {
  const auto sums = [](Shape x, Shape axes) {
    std::int64_t terms = 1;
    for (const std::int64_t axis : axes) terms *= x[static_cast<std::size_t>(axis)];
    return Sample{{{x}}, ReduceAttrs{axes, false, true}, terms};
  };
  const auto norm = [](Shape x, bool training) {
    const SampleInput channels{{x[1]}, 0.5, 1.5};
    const SampleInput absent{.shape = {}, .absent = true};
    return Sample{{{x, 9, 11},
                   channels,
                   channels,
                   training ? absent : channels,
                   training ? absent : channels},
                  BatchNormAttrs{training, true, 1e-3},
                  x.numel() / x[1],
                  16};
  };
  const auto norm_grad = [](Shape x) {
    const SampleInput channels{{x[1]}, 0.5, 1.5};
    return Sample{{{x}, {x}, channels, channels, channels, channels},
                  BatchNormAttrs{true, true, 1e-3},
                  x.numel() / x[1],
                  8};
  };
  const auto entropy_grad = [](std::int64_t n, std::int64_t classes) {
    return Sample{{{{}}, {{n, classes}, -4, 4}, {{n, classes}, 0, 1}, {{n, 2}, 1, 2}},
                  CrossEntropyAttrs{0.1},
                  classes,
                  30};
  };
  const AxisAttrs last{-1};
  const SampleInput mask{.shape = {64, 1, 33, 9}, .boolean = true};
  return {
      {"sum", sums({70001}, {0})},
      {"sum", sums({5000, 33}, {0})},
      {"sum", sums({9000, 20}, {0})},  // more ranges than threads combine at a time
      {"sum", sums({9000, 40}, {0})},
      {"sum", sums({90, 24}, {0})},
      {"mean", sums({600, 40}, {0})},
      {"sum", sums({4, 24, 37, 41}, {0, 2, 3})},
      {"sum", sums({300, 1500}, {1})},
      {"mean", sums({2, 8, 60, 60}, {2, 3})},
      {"max", sums({90, 3000}, {1})},
      {"max_grad", {{{{1, 40}}, {{900, 40}}, {{1, 40}, 0.99, 1}}}},
      {"softmax", {{{{3, 5000}, -3, 3}}, last, 5000}},
      {"log_softmax", {{{{3, 5000}, -3, 3}}, last, 5000}},
      {"softmax_grad", {{{{2, 3001}}, {{2, 3001}}}, last, 3001}},
      {"argmax", {{{{3, 5000}}}, last}},
      {"cross_entropy",
       {{{{700, 10}, -4, 4}, {{700}, 0, 10, true}}, CrossEntropyAttrs{0.1}, 7000, 9}},
      {"cross_entropy", {{{{40, 24}, -4, 4}, {{40}, 0, 24, true}}, CrossEntropyAttrs{0.1}, 960, 9}},
      {"cross_entropy_grad", entropy_grad(40, 24)},
      {"cross_entropy_grad", entropy_grad(3, 3000)},
      {"layer_norm", {{{{5, 3000}}, {{3000}}, {{3000}}}, LayerNormAttrs{1}, 3000, 4}},
      {"layer_norm_grad",
       {{{{600, 40}}, {{600, 40}}, {{40}}, {{600}}, {{600}, 0.5, 1}}, LayerNormAttrs{1}, 600, 4}},
      {"batch_norm", norm({6, 24, 31, 29}, true)},
      {"batch_norm", norm({6, 13, 31, 29}, true)},
      {"batch_norm", norm({16, 13, 33, 31}, true)},
      {"batch_norm", norm({700, 520}, false)},
      {"batch_norm_grad", norm_grad({6, 24, 31, 29})},
      {"batch_norm_grad", norm_grad({6, 13, 31, 29})},
      {"batch_norm_grad", norm_grad({16, 13, 33, 31})},
      {"embedding_grad", {{{{700, 300}}, {{700}, 0, 9, true}}, EmbeddingGradAttrs{9, true}, 700}},
      {"matmul", {{{{70, 130}}, {{130, 67}}}, MatmulAttrs{}, 130}},
      {"mul", {{{{64, 1, 33, 9}}, {{1, 35, 1, 9}}}}},
      {"compare", {{{{64, 1, 33, 9}}, {{1, 35, 1, 9}}}, CompareAttrs{Relation::kLt}}},
      {"where", {{mask, {{1, 35, 1, 9}}, {{35, 33, 1}}}}},
      {"maximum_grad", {{{{9, 35, 33}}, {{35, 1}}, {{9, 1, 33}}}}}};
}

std::vector<Large> large_calls_of_decoders() {
  const auto group_norm = [](Shape x, std::int64_t groups) {
    const SampleInput channels{{x[1]}, 0.5, 1.5};
    return Sample{{{x, 9, 11}, channels, channels},
                  GroupNormAttrs{groups, 1e-3},
                  x.numel() / x[0] / groups,
                  16};
  };
  const auto group_norm_grad = [](Shape x, std::int64_t groups) {
    const SampleInput channels{{x[1]}, 0.5, 1.5};
    return Sample{{{x}, {x}, channels, {{x[0], groups}}, {{x[0], groups}, 0.5, 1.5}},
                  GroupNormAttrs{groups, 1e-3},
                  x.numel() / x[1] + x.numel() / x[0] / groups,
                  8};
  };
  return {
      {"group_norm", group_norm({2, 24, 31, 29}, 3)},
      {"group_norm", group_norm({1, 26, 61, 47}, 2)},
      {"group_norm", group_norm({1, 26, 125, 148}, 2)},  // some blocks get no pixel
      {"group_norm", group_norm({300, 520}, 4)},
      {"group_norm_grad", group_norm_grad({2, 24, 31, 29}, 3)},
      {"group_norm_grad", group_norm_grad({1, 26, 61, 47}, 2)},
      {"group_norm_grad", group_norm_grad({300, 520}, 4)},
      {"upsample_nearest2d", {{{{2, 24, 31, 29}}}, UpsampleAttrs{{3, 2}}}},
      {"upsample_nearest2d_grad", {{{{2, 13, 90, 58}}}, UpsampleAttrs{{3, 2}}, 6}},
      {"upsample_bilinear2d", {{{{2, 24, 31, 29}}}, UpsampleBilinearAttrs{.size = {75, 40}}, 4}},
      {"upsample_bilinear2d",
       {{{{2, 13, 61, 59}}}, UpsampleBilinearAttrs{.size = 47, .align_corners = true}, 4}},
      {"upsample_bilinear2d_grad",
       {{{{2, 24, 75, 40}}}, UpsampleBilinearAttrs{.size = {75, 40}, .image = {31, 29}}, 32}},
      {"upsample_bilinear2d_grad",
       {{{{2, 13, 47, 47}}},
        UpsampleBilinearAttrs{.size = 47, .align_corners = true, .image = {61, 59}},
        4}}};
}

std::vector<Large> large_calls_of_sequences() {
  const AxisAttrs middle{1};
  const SampleInput index{.shape = {9, 300, 35}, .low = 0, .high = 40, .integer = true};
  return {{"rms_norm", {{{{5, 3000}}, {{3000}}}, LayerNormAttrs{1}, 3000, 4}},
          {"rms_norm_grad",
           {{{{600, 40}}, {{600, 40}}, {{40}}, {{600}, 0.5, 1}}, LayerNormAttrs{1}, 600, 4}},
          {"rope", {{{{3, 700, 5, 64}}, {.shape = {}, .absent = true}}, RopeAttrs{.axis = 1}, 2}},
          {"gather", {{{{9, 40, 35}}, index}, middle}},
          {"scatter_add", {{{{9, 40, 35}}, index, {{9, 300, 35}}}, middle, 300}},
          {"cumsum", {{{{9, 300, 35}}}, CumsumAttrs{.axis = 1}, 300}},
          {"argsort", {{{{9, 300, 35}}}, ArgsortAttrs{.axis = 1, .count = 300}}},
          {"norm", {{{{300, 1500}}}, ReduceAttrs{{1}}, 1500}},
          {"tril", {{{{9, 300, 35}}}, TriangularAttrs{.diagonal = -3}}}};
}

// Several tiles of queries and of keys, for each length of rows for which there are kernels.
std::vector<Large> large_calls_of_attention() {
  const AttentionAttrs causal{.causal = true, .scale = 0.25};
  const AttentionAttrs drops{.scale = 0.25, .dropout = 0.25, .position = {11, 4}};
  std::vector<Large> all;
  for (const AttentionCase& c :
       {AttentionCase{1, 150, 150, 2, 1, 64, 64, causal},
        AttentionCase{2, 70, 131, 1, 1, 33, 48, drops, {2, 1, 70, 131}, true},
        AttentionCase{1, 90, 100, 1, 1, 128, 96, causal, {1, 1, 90, 100}},
        AttentionCase{1, 67, 70, 1, 1, 200, 256, drops}}) {
    all.push_back({"attention", attention_sample(c)});
    all.push_back({"attention_grad", attention_grad_sample(c)});
  }
  return all;
}

// Convolutions of few channels, with rows of several strips of pixels and more filters than a block
// has; packed and not packed, with windows of up to 176 elements.
std::vector<Large> large_convolutions() {
  const auto calls = [](Shape x, Shape weight, const Conv2dAttrs& attrs) {
    const Size2d kernel{weight[2], weight[3]};
    const Size2d size = attrs.window(kernel).output_size({x[2], x[3]}, "conv2d");
    const Shape y{x[0], weight[0], size.h, size.w};
    const std::int64_t terms = weight[1] * weight[2] * weight[3] + 1;
    const std::int64_t pixels = y[0] * y[2] * y[3];
    const Conv2dGradAttrs grad_attrs{attrs, kernel, true};
    return std::vector<Large>{
        {"conv2d", {{{x}, {weight}, {{weight[0]}}}, attrs, terms}},
        {"conv2d_grad_weight", {{{y}, {x}}, grad_attrs, pixels}},
    };
  };
  std::vector<Large> all;
  for (const auto& more :
       {calls({1, 3, 7, 152}, {72, 3, 3, 3}, {.padding = {1, 1, 1, 1}}),
        calls({1, 3, 14, 144}, {64, 3, 7, 7}, {.stride = 2, .padding = {3, 3, 3, 3}}),
        calls({1, 7, 12, 83}, {19, 7, 5, 5}, {.padding = {2, 2, 0, 2}, .dilation = {2, 1}}),
        calls({2, 12, 6, 9}, {20, 12, 3, 3}, {.padding = {1, 1, 1, 1}})}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

void expect_agreement_of(const std::vector<Large>& calls) {
  for (const Large& large : calls) {
    const OpDef& op = *find_op(large.op);
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const Layout layout : kAllLayouts) {
        compare(
            op, large.sample, make_inputs(op, large.sample, dtype, Values::kRandom, layout),
            concat(large.op, " ", large.sample.inputs[0].shape, " ", dtype, " ", name_of(layout)),
            false, kCard);
      }
    }
  }
}

TEST(Cuda, AgreesOnShapesOfManyBlocks) {
  if (!has_device(kCard)) GTEST_SKIP() << "there is no CUDA card";
  expect_agreement_of(large_calls());
  expect_agreement_of(large_calls_of_decoders());
  expect_agreement_of(large_calls_of_sequences());
  expect_agreement_of(large_calls_of_attention());
  expect_agreement_of(large_convolutions());
}

TEST(Cuda, CastsFromAndToEightBits) {
  if (!has_device(kCard)) GTEST_SKIP() << "there is no CUDA card";
  expect_eight_bit_casts(kCard);
}

INSTANTIATE_TEST_SUITE_P(Cuda, EveryOpOnCuda, testing::ValuesIn(ops_to_try()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep
