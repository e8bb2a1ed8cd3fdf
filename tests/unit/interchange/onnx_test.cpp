#include "mezzo/interchange/onnx.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include <gmock/gmock.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/core/error.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/pool.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/interchange/onnx_model.h"
#include "tests/unit/small_models.h"

namespace mezzo::interchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

std::map<std::string, int> count_ops(const onnx::ModelProto& model) {
  std::map<std::string, int> counts;
  for (const onnx::NodeProto& node : model.graph().node()) ++counts[node.op_type()];
  return counts;
}

std::vector<std::int64_t> ints(const onnx::NodeProto& node, const std::string& attribute) {
  for (const onnx::AttributeProto& found : node.attribute()) {
    if (found.name() == attribute) return {found.ints().begin(), found.ints().end()};
  }
  return {};
}

class EveryModel : public testing::TestWithParam<std::string> {};

// Checks that the model has every parameter and statistic under its own name, with its own values.
void expect_state(const onnx::ModelProto& model, const nn::Module& net) {
  std::map<std::string, const onnx::TensorProto*> constants;
  for (const auto& tensor : model.graph().initializer()) constants[tensor.name()] = &tensor;
  for (const NamedTensor& entry : net.state()) {
    if (!is_floating(entry.tensor.dtype())) continue;
    ASSERT_TRUE(constants.contains(entry.name)) << entry.name;
    const onnx::TensorProto& found = *constants.at(entry.name);
    EXPECT_TRUE(std::ranges::equal(found.dims(), entry.tensor.shape())) << entry.name;
    const std::vector<float> values = entry.tensor.to_vector<float>();
    ASSERT_EQ(found.raw_data().size(), values.size() * sizeof(float)) << entry.name;
    EXPECT_EQ(std::memcmp(found.raw_data().data(), values.data(), found.raw_data().size()), 0)
        << entry.name;
  }
}

TEST_P(EveryModel, IsSoundForOnnxAndKeepsItsState) {
  models::ModelConfig config = models::usual_config(GetParam());
  config.image_size = std::min<std::int64_t>(config.image_size, 64);
  const auto net = models::create(GetParam(), config);
  onnx::ModelProto model =
      exported(*net, {config.in_channels, config.image_size, config.image_size});
  expect_state(model, *net);
  EXPECT_THAT(checked_output(model), ElementsAre("N", std::to_string(config.num_classes)));
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(test::small_image_model_names()),
                         [](const auto& test) { return test.param; });

// A layer and its transpose share a weight, which is in the file once.
TEST(Onnx, SharedWeightsAreThereOnce) {
  struct Half : nn::Module {
    Half(const Tensor& shared, bool back) : weight(shared), is_back(back) {
      add_parameter("weight", weight);
    }
    Tensor forward(const Tensor& x) override { return matmul(x, weight, {.transpose_b = is_back}); }
    Tensor weight;
    bool is_back;
  };
  struct Tied : nn::Module {
    Tied() {
      add("there", there);
      add("back", back);
    }
    Tensor forward(const Tensor& x) override { return back(there(x)); }
    Tensor weight = ones({3, 3});
    Half there{weight, false};
    Half back{weight, true};
  };
  Tied net;
  onnx::ModelProto model = exported(net, {3});
  int weights = 0;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    weights += tensor.raw_data().size() == 9 * sizeof(float) ? 1 : 0;
  }
  EXPECT_EQ(weights, 1);
  EXPECT_THAT(checked_output(model), ElementsAre("N", "3"));
}

TEST(Onnx, ResNet50HasItsNodes) {
  const auto net = models::create("resnet50", {.image_size = 32});
  const onnx::ModelProto model = exported(*net, {3, 32, 32});
  EXPECT_THAT(
      count_ops(model),
      UnorderedElementsAre(Pair("Conv", 53), Pair("BatchNormalization", 53), Pair("Relu", 49),
                           Pair("Add", 16), Pair("MaxPool", 1), Pair("GlobalAveragePool", 1),
                           Pair("Flatten", 1), Pair("Gemm", 1)));
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_EQ(model.opset_import(0).version(), 17);
}

TEST(Onnx, InputAndOutputHaveAnOpenBatch) {
  const auto net = models::create("lenet5", {.in_channels = 1, .image_size = 28});
  const onnx::ModelProto model = exported(*net, {1, 28, 28});
  const onnx::ValueInfoProto& input = model.graph().input(0);
  EXPECT_EQ(input.name(), "input");
  EXPECT_EQ(input.type().tensor_type().shape().dim(0).dim_param(), "N");
  EXPECT_EQ(input.type().tensor_type().shape().dim(3).dim_value(), 28);
  EXPECT_EQ(model.graph().output(0).name(), "output");
  EXPECT_THAT(node(model, "fc3/Gemm").output(), ElementsAre("output"));
}

// ONNX expects {top, left, bottom, right}; here `same` pads only below and to the right.
TEST(Onnx, UnevenPadding) {
  const auto net = models::create("resnet50_cifar", {.image_size = 32});
  const onnx::ModelProto model = exported(*net, {3, 32, 32});
  EXPECT_THAT(ints(node(model, "conv1/Conv"), "pads"), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(ints(node(model, "maxpool/MaxPool"), "pads"), ElementsAre(0, 0, 1, 1));
  nn::Conv2d conv(1, 2, 3, {.padding = Padding2d(0, 1, 2, 0)});
  EXPECT_THAT(ints(node(exported(conv, {1, 8, 8}), "Conv"), "pads"), ElementsAre(0, 2, 1, 0));
}

TEST(Onnx, ShortcutsOfResNet20ArePadded) {
  const auto net = models::create("resnet20", {.image_size = 32});
  const onnx::ModelProto model = exported(*net, {3, 32, 32});
  EXPECT_EQ(count_ops(model)["Pad"], 2);
  const onnx::NodeProto& pad = node(model, "layer2.0/Pad");
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.name() == pad.input(1)) {
      EXPECT_THAT(tensor.int64_data(), ElementsAre(0, 0, 0, 0, 0, 16, 0, 0));
    }
  }
}

TEST(Onnx, OtherOperations) {
  Net net([](const Tensor& x) {  // x: [n, 4, 6]
    const Tensor y = mul(sub(exp(tanh(x)), sigmoid(x)), x);
    const Tensor z = div(y, sqrt(exp(x)));
    return softmax(reshape(cat({z, log(sigmoid(x))}, 2), {x.size(0), 4, 3, 4}), 3);
  });
  onnx::ModelProto model = exported(net, {4, 6});
  EXPECT_THAT(checked_output(model), ElementsAre("N", "4", "3", "4"));
  EXPECT_THAT(
      count_ops(model),
      UnorderedElementsAre(Pair("Exp", 2), Pair("Tanh", 1), Pair("Sub", 1), Pair("Sigmoid", 2),
                           Pair("Mul", 1), Pair("Div", 1), Pair("Sqrt", 1), Pair("Log", 1),
                           Pair("Concat", 1), Pair("Reshape", 1), Pair("Softmax", 1)));
}

TEST(Onnx, FunctionsWithNumbers) {
  Net net([](const Tensor& x) { return silu(leaky_relu(x, 0.25)) + clamp(x, -0.5, 2); });
  const onnx::ModelProto model = exported(net, {4, 6});
  EXPECT_THAT(count_ops(model),
              UnorderedElementsAre(Pair("LeakyRelu", 1), Pair("Sigmoid", 1), Pair("Mul", 1),
                                   Pair("Clip", 1), Pair("Add", 1)));
  EXPECT_EQ(node(model, "LeakyRelu").attribute(0).f(), 0.25F);
  std::map<std::string, float> numbers;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    numbers[tensor.name()] = tensor.float_data(0);
  }
  const onnx::NodeProto& clip = node(model, "Clip");
  EXPECT_EQ(numbers[clip.input(1)], -0.5F);
  EXPECT_EQ(numbers[clip.input(2)], 2.0F);
}

// The operations that upsample images to an output of their size.
TEST(Onnx, LayersOfDecoders) {
  nn::Sequential net;
  net.emplace<nn::ConvTranspose2d>(
      4, 6, Size2d(3, 2),
      nn::ConvTranspose2dOptions{
          .stride = 2, .padding = Padding2d(1, 0, 1, 0), .output_padding = {1, 0}, .groups = 2});
  net.emplace<nn::GroupNorm>(3, 6);
  net.emplace<nn::InstanceNorm2d>(6);
  onnx::ModelProto model = exported(net, {4, 5, 6});
  EXPECT_THAT(count_ops(model),
              UnorderedElementsAre(Pair("ConvTranspose", 1), Pair("Reshape", 4),
                                   Pair("InstanceNormalization", 2), Pair("Unsqueeze", 2),
                                   Pair("Mul", 1), Pair("Add", 1)));
  const onnx::NodeProto& conv = model.graph().node(0);
  EXPECT_THAT(ints(conv, "strides"), ElementsAre(2, 2));
  EXPECT_THAT(ints(conv, "pads"), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(ints(conv, "output_padding"), ElementsAre(1, 0));
  EXPECT_THAT(checked_output(model), ElementsAre("N", "6", "11", "11"));
}

TEST(Onnx, RepeatedPixels) {
  nn::Sequential net;
  net.emplace<nn::Upsample>(Size2d(2, 3));
  onnx::ModelProto model = exported(net, {4, 5, 6});
  EXPECT_THAT(count_ops(model), UnorderedElementsAre(Pair("Resize", 1)));
  // ONNX does not infer that a scale of 1 keeps the batch.
  EXPECT_THAT(checked_output(model), ElementsAre(testing::_, "4", "10", "18"));
}

// A mask is state with a dtype of its own.
class Masked final : public nn::Module {
 public:
  Masked() { add_buffer("mask", mask_); }
  Tensor forward(const Tensor& x) override {  // x: [n, 3, 3]
    const Tensor y = where(ne(x, 0.5), maximum(x, abs(x)), minimum(x, x * x));
    return masked_fill(y, mask_, -1) + where(eq(mask_, 0), y, x) + masked_fill(x, ge(x, y), 2);
  }

 private:
  Tensor mask_ = lt(reshape(arange(3), {3, 1}), arange(3));
};

TEST(Onnx, ChoicesByMasks) {
  Masked net;
  onnx::ModelProto model = exported(net, {3, 3});
  EXPECT_THAT(checked_output(model), ElementsAre("N", "3", "3"));
  EXPECT_EQ(count_ops(model)["Where"], 4);
  const auto mask =
      std::ranges::find(model.graph().initializer(), "mask", &onnx::TensorProto::name);
  EXPECT_EQ(mask->data_type(), onnx::TensorProto::BOOL);
  EXPECT_EQ(mask->raw_data(), std::string("\0\1\1\0\0\1\0\0\0", 9));
}

// Constants are i64 if the tensor is.
TEST(Onnx, ChoicesOfTokens) {
  const auto text = [](nn::Module& net) {
    return serialize_onnx(net, {4}, {.input = DType::kI64});
  };
  Net net([](const Tensor& x) { return where(lt(x, 3), masked_fill(x, eq(x, 1), 7), x); });
  onnx::ModelProto model;
  model.ParseFromString(text(net));
  EXPECT_THAT(checked_output(model), ElementsAre("N", "4"));
  Net mask([](const Tensor& x) { return lt(x, 3); });
  model.ParseFromString(text(mask));
  EXPECT_EQ(model.graph().output(0).type().tensor_type().elem_type(), onnx::TensorProto::BOOL);
  Net part([](const Tensor& x) { return lt(x, 2.5); });
  EXPECT_THROW(text(part), UnsupportedError) << "2.5 is not an integer";
}

// Attention with a mask and positions, as in a language model.
class Attention final : public nn::Module {
 public:
  Attention() {
    add("tokens", tokens_);
    add("norm", norm_);
    add("qkv", qkv_);
    add_buffer("mask", mask_);
    add_buffer("places", places_);
  }
  Tensor forward(const Tensor& ids) override {
    const std::int64_t n = ids.size(0);
    const Tensor x = tokens_(ids) + embedding(tokens_.weight(), places_);
    const Tensor all = qkv_(norm_(x));
    const auto head = [&](std::int64_t i) {
      return permute(reshape(slice(all, 2, 8 * i, 8 * i + 8), {n, 5, 2, 4}), {0, 2, 1, 3});
    };
    const Tensor scores = matmul(head(0), head(1), {.transpose_b = true}) / 2.0 + mask_;
    const Tensor y = permute(matmul(softmax(scores), head(2)), {0, 2, 1, 3});
    return linear(gelu(reshape(y, {n, 5, 8})), tokens_.weight());
  }

 private:
  nn::Embedding tokens_{11, 8};
  nn::LayerNorm norm_{8};
  nn::Linear qkv_{8, 24};
  Tensor mask_ = zeros({5, 5});
  Tensor places_ = arange(5, DType::kI64);
};

TEST(Onnx, AttentionOverNumbersOfTokens) {
  Attention net;
  onnx::ModelProto model;
  model.ParseFromString(serialize_onnx(net, {5}, {.input = DType::kI64}));
  EXPECT_EQ(model.graph().input(0).type().tensor_type().elem_type(), onnx::TensorProto::INT64);
  EXPECT_THAT(checked_output(model), ElementsAre("N", "5", "11"));
  EXPECT_THAT(message_of<ArgumentError>([&] { serialize_onnx(net, {5}, {.input = DType::kF16}); }),
              HasSubstr("the input must be f32 or i64, not f16"));
}

TEST(Onnx, ReductionsAndUpsampling) {
  Net net([](const Tensor& x) {  // x: [n, 4, 6]
    const Tensor n = (x - mean(x, {2}, true)) / sqrt(sum(pow(x, 2), {1, 2}, true));
    const Tensor y = gelu(affine(n, 2, 1), GeluForm::kTanh) + max(x, {1}, true);
    const Tensor wide = expand(reshape(y, {x.size(0), 4, 6, 1}), {x.size(0), 4, 6, 2});
    return slice(reshape(wide, {x.size(0), 4, 12}), 2, 1, 12, 3);
  });
  onnx::ModelProto model = exported(net, {4, 6});
  EXPECT_THAT(checked_output(model), ElementsAre("N", "4", "4"));
}

TEST(Onnx, SaysWhichInputTheNetworkTakes) {
  nn::Embedding tokens(11, 8);
  EXPECT_THAT(message_of<ArgumentError>([&] { serialize_onnx(tokens, {5}); }),
              testing::StrEq("[export] the network takes an input of i64, not of f32. Set "
                             "OnnxOptions::input to DType::kI64"));
  Net images([](const Tensor& x) { return relu(x); });
  EXPECT_THAT(
      message_of<ArgumentError>([&] { serialize_onnx(images, {6}, {.input = DType::kI64}); }),
      HasSubstr("takes an input of f32, not of i64"));
  nn::Linear linear(6, 5);
  EXPECT_THAT(message_of<ArgumentError>([&] { serialize_onnx(linear, {7}); }),
              HasSubstr("[linear]"));
}

TEST(Onnx, LinearOnMoreAxes) {
  nn::Linear linear(6, 5);
  onnx::ModelProto model = exported(linear, {4, 6});
  EXPECT_THAT(checked_output(model), ElementsAre("N", "4", "5"));
}

TEST(Onnx, MeansOfWindows) {
  Net net([](const Tensor& x) { return avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); });
  onnx::ModelProto model = exported(net, {2, 8, 8});
  EXPECT_THAT(checked_output(model), ElementsAre("N", "2", "4", "4"));
  EXPECT_EQ(node(model, "AveragePool").attribute(3).i(), 1);
  // A window as large as the image is not a global mean if it moves over padding.
  Net padded(
      [](const Tensor& x) { return avg_pool2d(x, {.kernel = 4, .stride = 1, .padding = 1}); });
  onnx::ModelProto windows = exported(padded, {2, 4, 4});
  EXPECT_THAT(checked_output(windows), ElementsAre("N", "2", "3", "3"));
  EXPECT_EQ(count_ops(windows)["GlobalAveragePool"], 0);
}

// A network's output has a node of its own, even if it equals the input.
TEST(Onnx, OneTimesTheInputIsANode) {
  Net same([](const Tensor& x) { return x * 1; });
  onnx::ModelProto model = exported(same, {3});
  EXPECT_THAT(checked_output(model), ElementsAre("N", "3"));
  EXPECT_EQ(count_ops(model)["Identity"], 1);
}

TEST(Onnx, RefusesWhatItCannotSay) {
  Net largest([](const Tensor& x) { return argmax(x); });
  EXPECT_THAT(
      refusal(largest, {3}),
      HasSubstr("[export] argmax in the network itself: this operation has no translation"));
  Net made([](const Tensor& x) { return add(x, ones({3})); });
  EXPECT_THAT(refusal(made, {3}), HasSubstr("its input 1, f32[3], is neither the network's input"));
}

// A trace only records calls: changes between them would be missing in the file.
TEST(Onnx, RefusesWhatIsChangedInPlace) {
  Net result([](const Tensor& x) {
    const Tensor y = relu(x);
    add_into(y.detach(), x);
    return y * 2;
  });
  EXPECT_THAT(refusal(result, {3}),
              HasSubstr("[export] the network itself reads f32[3, 3], which was changed in place"));
  Net last([](const Tensor& x) {
    const Tensor y = relu(x);
    fill(slice(y, 1, 0, 1), 1);
    return y;
  });
  EXPECT_THAT(refusal(last, {3}), HasSubstr("which was changed in place"));
}

// A detached tensor is the same value; so is a detached parameter.
class Detaching final : public nn::Module {
 public:
  Detaching() { add("fc", fc_); }
  Tensor forward(const Tensor& x) override {
    const Tensor y = fc_(x);
    return (relu(y).detach() + y * fc_.weight().detach()).detach();
  }

 private:
  nn::Linear fc_{3, 3};
};

TEST(Onnx, DetachedTensorsAreWhatTheyWereTakenFrom) {
  Detaching net;
  onnx::ModelProto model = exported(net, {3, 3});
  EXPECT_THAT(checked_output(model), ElementsAre("N", "3", "3"));
  EXPECT_EQ(model.graph().initializer_size(), 2);
}

// Adds its parameter, of any name and shape.
class Added final : public nn::Module {
 public:
  Added(const std::string& name, const Shape& shape) : w_(ones(shape)) { add_parameter(name, w_); }
  Tensor forward(const Tensor& x) override { return x + w_; }

 private:
  Tensor w_;
};

TEST(Onnx, RefusesStateThatIsCalledAsTheInput) {
  for (const char* name : {"input", "output"}) {
    Added net(name, {4});
    EXPECT_THAT(message_of<ArgumentError>([&] { serialize_onnx(net, {4}); }),
                HasSubstr(concat("is called `", name, "`")));
  }
}

TEST(Onnx, RefusesStateThatFitsOneBatchSize) {
  Added net("w", {2, 4});
  EXPECT_THAT(message_of<ArgumentError>([&] { serialize_onnx(net, {4}); }), HasSubstr("[add]"));
}

// A child module whose operation ONNX does not have.
class Choosing final : public nn::Module {
 public:
  Choosing() { add("inner", inner_); }
  Tensor forward(const Tensor& x) override { return inner_(x); }

 private:
  Net inner_{[](const Tensor& x) { return argmax(x); }};
};

TEST(Onnx, NamesTheModuleOfWhatItRefuses) {
  Choosing net;
  EXPECT_THAT(refusal(net, {3}), HasSubstr("in `inner`"));
}

// The network's precision settings and a region around the export have no effect.
TEST(Onnx, IsInF32WhateverThePrecision) {
  const auto net = models::create("lenet5", {.in_channels = 1, .image_size = 28});
  const std::string plain = serialize_onnx(*net, {1, 28, 28});
  amp::auto_mixed_precision(*net, "O2", DType::kF16);
  amp::to_float(*net->find("fc2"), DType::kBf16);
  const amp::Autocast region({.level = amp::Level::kO3, .lower = DType::kBf16});
  EXPECT_EQ(serialize_onnx(*net, {1, 28, 28}), plain);
  const NoGrad no_grad;
  EXPECT_EQ(net->find("fc2")->operator()(zeros({1, 120})).dtype(), DType::kBf16);
}

TEST(Onnx, RefusesParametersIn16Bits) {
  const auto net = models::create("mlp", {.in_channels = 1, .image_size = 8});
  amp::half_parameters(*net, DType::kBf16);
  EXPECT_THAT(refusal(*net, {1, 8, 8}), HasSubstr("[export]"));
}

TEST(Onnx, TheNetworkMustComputeSomething) {
  Net identity([](const Tensor& x) { return x; });
  EXPECT_THAT(message_of<ArgumentError>([&] { serialize_onnx(identity, {3}); }),
              HasSubstr("is not the result of an operation"));
}

TEST(Onnx, WritesFiles) {
  const data::TempFolder folder;
  nn::Linear linear(3, 2);
  export_onnx(linear, {3}, folder.path("net.onnx"));
  const data::Bytes file = data::TempFolder::read(folder.path("net.onnx"));
  EXPECT_EQ(std::string(file.begin(), file.end()), serialize_onnx(linear, {3}));
  EXPECT_THROW(export_onnx(linear, {3}, folder.path("missing/net.onnx")), FileError);
}

}  // namespace
}  // namespace mezzo::interchange
