// Every op in every vector dtype and layout against its reference kernel in double.
#include <gtest/gtest.h>

#include "mezzo/ops/call.h"
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

INSTANTIATE_TEST_SUITE_P(Forward, EveryOp, testing::ValuesIn(all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep
