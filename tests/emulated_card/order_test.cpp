// A GPU runs the threads of a block, and the blocks, in any order: each order gives the same bits.
#include <gtest/gtest.h>

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "tests/emulated_card/block.h"
#include "tests/sweep/sweep.h"
#include "tests/unit/cuda/card.h"

namespace mezzo::sweep {
namespace {

class EveryOpInAnyOrder : public testing::TestWithParam<const OpDef*> {};

// Results converted to f32, which keeps all values distinct; NaNs are compared by their bits.
std::vector<std::vector<float>> results(const OpDef& op, const std::vector<Tensor>& inputs,
                                        const Attrs& attrs) {
  std::vector<std::vector<float>> all;
  const Outputs outputs = call(op, pointers(inputs), attrs);
  for (std::size_t k = 0; k < outputs.size(); ++k) all.push_back(outputs[k].to_vector<float>());
  return all;
}

TEST_P(EveryOpInAnyOrder, GivesTheSameBits) {
  const OpDef& op = *GetParam();
  if (op.infer == nullptr) return;
  for (const Sample& sample : op.samples()) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      std::vector<Tensor> inputs = make_inputs(op, sample, dtype);
      for (Tensor& input : inputs) input = on_device(input, kCard);
      emulated_card::set_order(0);
      const auto forwards = results(op, inputs, sample.attrs);
      for (const unsigned order : {1U, 2U, 3U}) {
        emulated_card::set_order(order);
        EXPECT_EQ(results(op, inputs, sample.attrs), forwards) << op.name << ", order " << order;
      }
    }
  }
  emulated_card::set_order(0);
}

INSTANTIATE_TEST_SUITE_P(EmulatedCard, EveryOpInAnyOrder, testing::ValuesIn(all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep
