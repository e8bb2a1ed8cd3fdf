// Tests how an exported graph treats sequences whose length is open, as the batch is.
#include <gmock/gmock.h>

#include "mezzo/models/gpt.h"
#include "mezzo/models/llama.h"
#include "mezzo/models/text_lstm.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/attention.h"
#include "mezzo/ops/cumsum.h"
#include "mezzo/ops/layer_norm.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/rope.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/interchange/onnx_text.h"

namespace mezzo::interchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

onnx::ModelProto opened(nn::Module& net, const Shape& example, DType input) {
  onnx::ModelProto model;
  EXPECT_TRUE(
      model.ParseFromString(serialize_onnx(net, example, {.input = input, .open_length = true})));
  return model;
}

std::vector<std::string> dims_of(const onnx::ValueInfoProto& value) {
  std::vector<std::string> dims;
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    dims.push_back(dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  }
  return dims;
}

// No size of the traced sequence may remain in the file: the same network, traced for another
// length, is the same file.
void expect_no_length(nn::Module& net, std::int64_t length, std::int64_t other) {
  const OnnxOptions options{.input = DType::kI64, .open_length = true};
  EXPECT_TRUE(serialize_onnx(net, {length}, options) == serialize_onnx(net, {other}, options));
  onnx::ModelProto model = opened(net, {length}, DType::kI64);
  EXPECT_THAT(dims_of(model.graph().input(0)), ElementsAre("N", "T"));
  EXPECT_THAT(dims_of(model.graph().output(0)), ElementsAre("N", "T", "13"));
  onnx::checker::check_model(model);
}

TEST(OnnxLength, LanguageModelsTakeAnyLength) {
  models::Gpt gpt({.vocabulary = 13, .positions = 16, .layers = 2, .heads = 2, .width = 8});
  expect_no_length(gpt, 8, 16);
  models::Llama llama(
      {.vocabulary = 13, .layers = 2, .heads = 4, .key_heads = 2, .width = 16, .hidden = 12});
  expect_no_length(llama, 4, 11);
}

// The nodes of a function of [n, t, 4], exported for a t of 6.
std::string of_sequences(Function function) {
  Net net(std::move(function));
  return nodes_of(opened(net, {6, 4}, DType::kF32));
}

TEST(OnnxLength, SlicesAreCountedFromEitherEnd) {
  EXPECT_EQ(of_sequences([](const Tensor& x) { return slice(x, 1, 1, x.size(1)); }),
            "Shape(input) start=1 end=2\nSlice(input, [1], Shape, [1], [1])");
  EXPECT_EQ(of_sequences([](const Tensor& x) { return slice(x, 1, x.size(1) - 2, x.size(1) - 1); }),
            "Shape(input) start=1 end=2\nAdd(Shape, [-2])\nAdd(Shape, [-1])\n"
            "Slice(input, Add, Add_2, [1], [1])");
}

TEST(OnnxLength, TheSequenceMayBeReducedAndMoved) {
  EXPECT_EQ(of_sequences([](const Tensor& x) { return mean(x, {1}); }),
            "ReduceMean(input) axes=[1] keepdims=0");
  EXPECT_EQ(of_sequences([](const Tensor& x) { return cumsum(x, 1); }),
            "CumSum(input, 1) reverse=0");
  EXPECT_EQ(of_sequences([](const Tensor& x) {
              return reshape(permute(x, {0, 2, 1}), {x.size(0), 2, 2, x.size(1)});
            }),
            "Transpose(input) perm=[0,2,1]\nReshape(Transpose, [0,2,2,-1])");
}

TEST(OnnxLength, TheCausalMaskCountsQueriesAndKeys) {
  const std::string text = of_sequences([](const Tensor& x) {
    const Tensor heads = reshape(x, {x.size(0), 1, x.size(1), 4});
    return reshape(attention(heads, heads, heads, {.causal = true}), x.shape());
  });
  EXPECT_THAT(text, HasSubstr("Gather(Shape, 0)"));
  EXPECT_THAT(text, HasSubstr("Sub(Gather_2, Gather)\nRange(Sub, Gather_2, 1)\n"
                              "Unsqueeze(Range, [1])\nRange(0, Gather_2, 1)\n"
                              "LessOrEqual(Range_2, Unsqueeze)"));
}

TEST(OnnxLength, AnglesAreComputedInF64) {
  const std::string text = of_sequences([](const Tensor& x) { return rope(x, {.axis = 1}); });
  EXPECT_THAT(text, HasSubstr("Range(0, Add, 1)\nUnsqueeze(Range, [1])\nCast(Unsqueeze) to=11\n"));
  EXPECT_THAT(text, HasSubstr("fmod=1\nCast(Mod) to=1\nReshape(Cast_2, [-1,2])\nSin(Reshape)"));
}

TEST(OnnxLength, SaysWhatNeedsAFixedLength) {
  const auto refusal_of = [](nn::Module& net, const Shape& example, DType input) {
    return message_of<UnsupportedError>(
        [&] { serialize_onnx(net, example, {.input = input, .open_length = true}); });
  };
  const auto refusal_of_function = [&](Function function) {
    Net net(std::move(function));
    return refusal_of(net, {6, 4}, DType::kF32);
  };
  EXPECT_THAT(
      refusal_of_function([](const Tensor& x) { return x / static_cast<double>(x.size(1)); }),
      HasSubstr("div_number in the network itself: it depends on the length of the "
                "sequence, which is open"));
  EXPECT_THAT(refusal_of_function([](const Tensor& x) { return slice(x, 1, 0, x.size(1) / 2); }),
              HasSubstr("a position is 2 for one length of the sequence and 1 for another"));
  EXPECT_THAT(refusal_of_function([](const Tensor& x) {
                return layer_norm(x, {x.size(1), 4});
              }),
              HasSubstr("is that of the sequence, whose length is open"));
  models::TextLstm lstm({.vocabulary = 13, .embedding = 4, .hidden = 4});
  EXPECT_THAT(refusal_of(lstm, {6}, DType::kI64),
              HasSubstr("calls other operations for a sequence of 5 than for one of 3, as "
                        "recurrent layers do"));
  Net scalar([](const Tensor& x) { return relu(x); });
  EXPECT_THAT(message_of([&] { serialize_onnx(scalar, {}, {.open_length = true}); }),
              HasSubstr("an example with an open length needs an axis"));
}

}  // namespace
}  // namespace mezzo::interchange
