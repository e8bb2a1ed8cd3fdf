// Every op is completely defined and refuses bad inputs as its definition says.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/describe.h"
#include "mezzo/ops/dispatcher/sample.h"
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

// Matches `... what is wrong: the values. What to do.`, without the last full stop.
bool ends_with_advice(std::string_view message) {
  const std::size_t stop = message.rfind(". ");
  return stop != message.npos && stop + 2 < message.size() && message[stop + 2] >= 'A' &&
         message[stop + 2] <= 'Z';
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
      EXPECT_TRUE(ends_with_advice(caught.what())) << caught.what();
    }
  }
}

std::string names_of(const KernelList* list) {
  std::string names;
  if (list == nullptr) return names;
  for (const Kernel& kernel : list->entries()) names += concat(kernel.name, ", ");
  return names;
}

// Without CUDA, the description does not mention devices.
TEST(Description, NamesTheKernelsOfBothKindsOfDevices) {
  const bool with_cuda = find_device_backend(DeviceType::kCuda) != nullptr;
  for (const OpDescription& description : describe_ops()) {
    const OpDef& op = *find_op(description.name);
    if (op.view != nullptr) {
      EXPECT_EQ(description.cpu_kernels, "view");
      EXPECT_EQ(description.cuda_kernels, with_cuda ? "view" : "") << op.name;
      continue;
    }
    const OpKernels& kernels = kernels_of(op);
    EXPECT_EQ(description.cpu_kernels, names_of(kernels.cpu) + "reference");
    EXPECT_EQ(description.cuda_kernels, with_cuda ? names_of(kernels.cuda) + "reference" : "")
        << op.name;
  }
}

// The document must not depend on what is built.
TEST(Description, TheDocumentIsAboutTheCpu) {
  const std::string document = ops_as_markdown();
  EXPECT_THAT(document, testing::HasSubstr("| CPU kernels |"));
  EXPECT_THAT(document, testing::HasSubstr("| cpu_simd, reference |"));
  EXPECT_THAT(document, testing::Not(testing::HasSubstr("| cuda")));
}

// Whatever bars a description contains.
TEST(Description, EveryRowOfTheTableHasAsManyCells) {
  std::istringstream document(ops_as_markdown());
  std::string line;
  std::size_t rows = 0;
  while (std::getline(document, line)) {
    if (!line.starts_with('|')) continue;
    std::size_t bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '|' && (i == 0 || line[i - 1] != '\\')) ++bars;
    }
    EXPECT_EQ(bars, 8) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 2 + describe_ops().size());
}

INSTANTIATE_TEST_SUITE_P(Definition, EveryDefinition, testing::ValuesIn(all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep
