// Every op is completely defined and refuses bad inputs as it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/call.h"
#include "tests/sweep/sweep.h"

namespace mezzo::sweep {
namespace {

class EveryDefinition : public testing::TestWithParam<const OpDef*> {};

TEST_P(EveryDefinition, IsComplete) {
  const OpDef& op = *GetParam();
  EXPECT_EQ(find_op(op.name), &op) << "another op has this name";
  ASSERT_NE(op.doc, nullptr);
  ASSERT_NE(op.precision.reason, nullptr) << "a precision rule needs its reason";
  EXPECT_GT(std::string(op.precision.reason).size(), 10U);
  EXPECT_NE(op.infer == nullptr, op.view == nullptr) << "either a kernel or a view";
  EXPECT_TRUE(op.infer == nullptr || kernels_of(op).ref != nullptr) << "the oracle is missing";
  ASSERT_NE(op.samples, nullptr);
  EXPECT_FALSE(op.samples().empty());
}

TEST_P(EveryDefinition, RefusesBadInputsWithItsMessage) {
  const OpDef& op = *GetParam();
  if (op.errors == nullptr) return;
  for (const ErrorSample& error : op.errors()) {
    const std::vector<Tensor> inputs = make_inputs(op, {error.inputs, error.attrs}, DType::kF32);
    const std::vector<const Tensor*> in = pointers(inputs);
    try {
      call(op, in, error.attrs);
      ADD_FAILURE() << op.name << " accepted what must fail with: " << error.message;
    } catch (const Error& caught) {
      EXPECT_THAT(caught.what(), testing::StartsWith(concat("[", op.name, "] ")));
      EXPECT_THAT(caught.what(), testing::HasSubstr(error.message));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Definition, EveryDefinition, testing::ValuesIn(all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep
