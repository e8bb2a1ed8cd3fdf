// Compares every op in every vector dtype and layout with its reference kernel in double.
#include <algorithm>
#include <bit>
#include <cstdint>

#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "tests/sweep/sweep.h"

namespace mezzo::sweep {
namespace {

class EveryOp : public testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOp, AgreesWithTheReferenceInEveryDTypeAndLayout) { expect_agreement(*GetParam()); }

TEST_P(EveryOp, IsExactOnSmallIntegersIfItSaysSo) { expect_exactness(*GetParam()); }

TEST_P(EveryOp, ViewsShareMemoryAndReadStridedInputs) {
  const OpDef& op = *GetParam();
  if (op.view == nullptr) return;
  const std::vector<Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Tensor x = make_inputs(op, samples[i], DType::kF32)[0];
    const Tensor y = call(op, {&x}, samples[i].attrs)[0];
    EXPECT_EQ(y.storage(), x.storage()) << op.name << " #" << i;
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  return std::ranges::equal(a.to_vector<float>(), b.to_vector<float>(), {}, bits, bits);
}

// Graph mode's fuse_casts relies on this. Matrix products are excluded: their kernels differ.
TEST_P(EveryOp, On16BitsIsWhatF32WouldGiveRoundedOnce) {
  const OpDef& op = *GetParam();
  if (!graph::can_fuse_casts(op)) return;
  const std::vector<Sample> samples = op.samples();
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::vector<Tensor> narrow = make_inputs(op, samples[i], dtype);
      std::vector<Tensor> wide;
      for (const Tensor& x : narrow) {
        wide.push_back(x.defined() && is_lower(x.dtype()) ? x.astype(DType::kF32) : x);
      }
      Outputs got = call(op, pointers(narrow), samples[i].attrs);
      Outputs want = call(op, pointers(wide), samples[i].attrs);
      for (std::size_t k = 0; k < got.size(); ++k) {
        EXPECT_TRUE(same_bits(got[k], want[k].astype(got[k].dtype())))
            << describe(op, i, dtype, Layout::kDense) << ", output " << k;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forward, EveryOp, testing::ValuesIn(all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep
