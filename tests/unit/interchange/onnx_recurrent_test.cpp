// Recurrent layers in ONNX: step by step, in operators of every version.
#include <algorithm>

#include <gmock/gmock.h>

#include "mezzo/core/random.h"
#include "mezzo/models/text_lstm.h"
#include "mezzo/ops/dispatcher/call.h"
#include "tests/unit/interchange/onnx_model.h"

namespace mezzo::interchange {
namespace {

std::int64_t count(const onnx::ModelProto& model, const char* type) {
  return std::ranges::count(model.graph().node(), type, &onnx::NodeProto::op_type);
}

// 4 steps of 2 layers in 2 directions, and sigmoids of 3 gates. The first step has no state to
// multiply.
TEST(OnnxRecurrent, LstmIsWrittenStepByStep) {
  nn::Lstm net(3, 5, {.layers = 2, .bidirectional = true});
  onnx::ModelProto model = exported(net, {4, 3});
  EXPECT_EQ(checked_output(model), (std::vector<std::string>{"N", "4", "10"}));
  EXPECT_EQ(count(model, "Sigmoid"), 4 * 2 * 2 * 3);
  EXPECT_EQ(count(model, "Gemm"), 3 * 2 * 2);
}

TEST(OnnxRecurrent, GruIsWrittenStepByStep) {
  nn::Gru net(3, 5, {.bidirectional = true});
  onnx::ModelProto model = exported(net, {4, 3});
  EXPECT_EQ(checked_output(model), (std::vector<std::string>{"N", "4", "10"}));
  EXPECT_EQ(count(model, "Sigmoid"), 4 * 2 * 2);
}

TEST(OnnxRecurrent, AClassifierOfTexts) {
  models::TextLstm net({.vocabulary = 20, .embedding = 6, .hidden = 5, .bidirectional = true});
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(serialize_onnx(net, {7}, {.input = DType::kI64})));
  EXPECT_EQ(checked_output(model).back(), "2");
}

}  // namespace
}  // namespace mezzo::interchange
