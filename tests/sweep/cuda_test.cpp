// Every op in every vector dtype and layout on a card, against its reference kernel in double.
#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/call.h"
#include "tests/sweep/sweep.h"

namespace mezzo::sweep {
namespace {

constexpr Device kCard{DeviceType::kCuda, 0};

class EveryOpOnCuda : public testing::TestWithParam<const OpDef*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryOpOnCuda);

TEST(Cuda, HasACard) {
  if (!has_device(kCard)) GTEST_SKIP() << "there is no CUDA card: the sweep over it is skipped";
  EXPECT_FALSE(backend_of(kCard).describe(kCard).empty());
}

// Without a card there is nothing to run, and one line says so.
std::vector<const OpDef*> ops_to_try() {
  return has_device(kCard) ? all_ops() : std::vector<const OpDef*>{};
}

TEST_P(EveryOpOnCuda, AgreesWithTheReferenceInEveryDTypeAndLayout) {
  const OpDef& op = *GetParam();
  if (op.infer == nullptr) return;  // views have no kernel
  const std::vector<Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const Layout layout : kAllLayouts) {
        compare(op, samples[i], make_inputs(op, samples[i], dtype, Values::kRandom, layout),
                describe(op, i, dtype, layout), false, kCard);
      }
    }
  }
}

TEST_P(EveryOpOnCuda, IsExactOnSmallIntegersIfItSaysSo) {
  const OpDef& op = *GetParam();
  if (!op.exact || op.infer == nullptr) return;
  const std::vector<Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      compare(op, samples[i], make_inputs(op, samples[i], dtype, Values::kSmallIntegers),
              describe(op, i, dtype, Layout::kDense), true, kCard);
    }
  }
}

// The same call twice gives the same bits: nothing is added in an order that depends on who is
// first.
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

INSTANTIATE_TEST_SUITE_P(Cuda, EveryOpOnCuda, testing::ValuesIn(ops_to_try()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep
