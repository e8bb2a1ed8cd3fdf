// Every op in every vector dtype and layout against its reference kernel in double.
#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/ops/call.h"
#include "tests/sweep/sweep.h"

namespace mezzo::sweep {
namespace {

class EveryOp : public testing::TestWithParam<const OpDef*> {};

// The first element that is too far off, as text; empty if none is.
std::string first_difference(const OpDef& op, const Sample& sample, const Tensor& result,
                             const Tensor& expected, bool exact) {
  const auto got = result.to_vector<double>();
  const auto want = expected.to_vector<double>();
  const auto rounded = expected.astype(result.dtype()).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = exact ? 0 : tolerance(op, sample, result.dtype(), want[i]);
    const double target = exact ? rounded[i] : want[i];
    // Beyond the dtype's range both must be the same infinity.
    const bool same = got[i] == rounded[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (!same && !(std::abs(got[i] - target) <= allowed)) {
      return concat("element ", i, " of ", got.size(), ": got ", got[i], ", expected ", target,
                    ", allowed difference ", allowed);
    }
  }
  return {};
}

void compare(const OpDef& op, const Sample& sample, const std::vector<Tensor>& inputs,
             const std::string& name, bool exact) {
  const std::vector<const Tensor*> in = pointers(inputs);
  const Outputs outputs = call(op, in, sample.attrs);
  std::vector<Tensor> results;
  for (std::size_t k = 0; k < outputs.size(); ++k) results.push_back(outputs[k]);
  const std::vector<Tensor> expected = reference_outputs(op, inputs, sample.attrs, results);
  for (std::size_t k = 0; k < results.size(); ++k) {
    EXPECT_EQ(first_difference(op, sample, results[k], expected[k], exact), "")
        << name << " output " << k << " attrs: " << sample.attrs.to_text();
  }
}

TEST_P(EveryOp, AgreesWithTheReferenceInEveryDTypeAndLayout) {
  const OpDef& op = *GetParam();
  if (op.infer == nullptr) return;  // views have no kernel
  const std::vector<Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const Layout layout : kAllLayouts) {
        compare(op, samples[i], make_inputs(op, samples[i], dtype, Values::kRandom, layout),
                describe(op, i, dtype, layout), false);
      }
    }
  }
}

TEST_P(EveryOp, IsExactOnSmallIntegersIfItSaysSo) {
  const OpDef& op = *GetParam();
  if (!op.exact || op.infer == nullptr) return;
  const std::vector<Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      compare(op, samples[i], make_inputs(op, samples[i], dtype, Values::kSmallIntegers),
              describe(op, i, dtype, Layout::kDense), true);
    }
  }
}

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
