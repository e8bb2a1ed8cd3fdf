// Tests the export of networks with several inputs and results.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/multi_head_attention.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/nn/tie.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/interchange/onnx_model.h"

namespace mezzo::interchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// tokens: i64 [n, 3]; image: [n, 4]; mask: bool [n, 4]. Scores of the tokens, [n, 3, 5], by the
// embedding's own table, and the masked image, [n, 4].
class Towers final : public nn::Module {
 public:
  Towers() {
    add("embed", embed_), add("head", head_);
    nn::tie(*this, "head.weight", "embed.weight");
  }
  nn::Tensors forward_all(const nn::Tensors& inputs) override {
    const Tensor image = relu(inputs[1]);
    return {head_(embed_(inputs[0])),
            inputs[2].defined() ? masked_fill(image, inputs[2], 0) : image};
  }

 private:
  nn::Embedding embed_{5, 4};
  nn::Linear head_{4, 5, false};
};

const OnnxInput kTokens{.example = {3}, .dtype = DType::kI64};
const OnnxInput kImage{.example = {4}};
const OnnxInput kMask{.example = {4}, .dtype = DType::kBool, .name = "mask"};

onnx::ModelProto exported_as(nn::Module& net, const OnnxSignature& signature) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(serialize_onnx(net, signature)));
  onnx::checker::check_model(model);
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), {true, 1, true});
  return model;
}

template <class Values>
std::vector<std::string> names_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.name());
  return names;
}

TEST(OnnxSeveral, InputsAndResultsHaveNamesAndTypes) {
  Towers net;
  const onnx::GraphProto graph = exported_as(net, {.inputs = {kTokens, kImage, kMask}}).graph();
  EXPECT_THAT(names_of(graph.input()), ElementsAre("x0", "x1", "mask"));
  EXPECT_THAT(names_of(graph.output()), ElementsAre("y0", "y1"));
  const auto type = [](const onnx::ValueInfoProto& value) {
    return value.type().tensor_type().elem_type();
  };
  EXPECT_EQ(type(graph.input(0)), onnx::TensorProto::INT64);
  EXPECT_EQ(type(graph.input(1)), onnx::TensorProto::FLOAT);
  EXPECT_EQ(type(graph.input(2)), onnx::TensorProto::BOOL);
  for (const onnx::ValueInfoProto& value : {graph.input(0), graph.input(2), graph.output(1)}) {
    EXPECT_EQ(value.type().tensor_type().shape().dim(0).dim_param(), "N") << value.name();
  }
  EXPECT_EQ(graph.output(0).type().tensor_type().shape().dim(2).dim_value(), 5);
  // The tied weight is there once.
  EXPECT_THAT(names_of(graph.initializer()), testing::Contains("embed.weight"));
  EXPECT_THAT(names_of(graph.initializer()), testing::Not(testing::Contains("head.weight")));
}

TEST(OnnxSeveral, NamesMayBeGivenAndInputsLeftOut) {
  Towers net;
  const onnx::GraphProto graph =
      exported_as(net, {.inputs = {kTokens, kImage, {.left_out = true}}, .results = {"a", "b"}})
          .graph();
  EXPECT_THAT(names_of(graph.input()), ElementsAre("x0", "x1"));
  EXPECT_THAT(names_of(graph.output()), ElementsAre("a", "b"));
}

TEST(OnnxSeveral, ATensorMayBeTwoResultsAndAFurtherInput) {
  class Twice final : public nn::Module {
   public:
    nn::Tensors forward_all(const nn::Tensors& inputs) override {
      const Tensor y = inputs[0] + inputs[1];
      return {y, relu(y), y, Tensor()};
    }
  } net;
  const onnx::ModelProto model = exported_as(net, {.inputs = {kImage, kImage}});
  EXPECT_THAT(names_of(model.graph().output()), ElementsAre("y0", "y1", "y2"));
  EXPECT_THAT(node(model, "Relu").input(), ElementsAre("y0"));
  EXPECT_THAT(node(model, "Identity").output(), ElementsAre("y2"));
}

// They are one value of the file.
TEST(OnnxSeveral, ATensorMayBeAResultInTwoFormats) {
  class Same final : public nn::Module {
   public:
    nn::Tensors forward_all(const nn::Tensors& inputs) override {
      const Tensor y = relu(inputs[0]);
      return {y, to_format(y, Format::kChannelsLast)};
    }
  } net;
  const onnx::GraphProto graph = exported_as(net, {.inputs = {{.example = {2, 3, 3}}}}).graph();
  EXPECT_THAT(names_of(graph.output()), ElementsAre("y0", "y1"));
}

// Both masks, of keys and of pairs: what joins them is computed from the inputs.
TEST(OnnxSeveral, AttentionTakesBothMasks) {
  nn::MultiHeadAttention attention(4, 2);
  const OnnxInput tokens{.example = {3, 4}};
  const OnnxInput keys{.example = {3}, .dtype = DType::kBool, .name = "keys"};
  const auto exported_with = [&](DType dtype) {
    const OnnxInput pairs{.example = {1, 3, 3}, .dtype = dtype, .name = "pairs"};
    return exported_as(attention, {.inputs = {tokens, tokens, tokens, keys, pairs}}).graph();
  };
  for (const DType dtype : {DType::kBool, DType::kF32}) {
    const auto inputs = names_of(exported_with(dtype).input());
    EXPECT_THAT(inputs, ElementsAre("x0", "x1", "x2", "keys", "pairs")) << name_of(dtype);
  }
}

TEST(OnnxSeveral, RecomputedModulesAreExportedAsOthers) {
  Towers net;
  const OnnxSignature signature{.inputs = {kTokens, kImage, kMask}};
  const std::string before = serialize_onnx(net, signature);
  nn::recompute(net);
  EXPECT_EQ(serialize_onnx(net, signature), before);
}

TEST(OnnxSeveral, RefusesNamesThatDoNotFit) {
  Towers net;
  const auto refused = [&](const OnnxSignature& signature) {
    return message_of<ArgumentError>([&] { serialize_onnx(net, signature); });
  };
  const std::vector<OnnxInput> inputs{kTokens, kImage, kMask};
  EXPECT_THAT(refused({inputs, {"a"}}), HasSubstr("1 names for the 2 results of the network"));
  EXPECT_THAT(refused({inputs, {"a", "a"}}), HasSubstr("two inputs or outputs are called `a`"));
  EXPECT_THAT(refused({inputs, {"x0", "b"}}), HasSubstr("two inputs or outputs are called `x0`"));
  EXPECT_THAT(refused({inputs, {"a", ""}}), HasSubstr("the name of result 1 is empty"));
  EXPECT_THAT(refused({inputs, {"embed.weight", "b"}}), HasSubstr("is called `embed.weight`"));
  EXPECT_THAT(refused({{{.example = {3}, .dtype = DType::kF16}, kImage, kMask}, {}}),
              HasSubstr("input 0 must be f32, i64 or bool, not f16"));
}

}  // namespace
}  // namespace mezzo::interchange
