// Tests the translation of each operation: the nodes, as text, in ONNX's terms.
#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/attention.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/layer_norm.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/pool.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/interchange/onnx_text.h"
#include "tests/unit/message_of.h"

namespace mezzo::interchange {
namespace {

TEST(OnnxNodes, Functions) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return exp(x); }), "Exp(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return log(x); }), "Log(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return sqrt(x); }), "Sqrt(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return abs(x); }), "Abs(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return relu(x); }), "Relu(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return sigmoid(x); }), "Sigmoid(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return tanh(x); }), "Tanh(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return pow(x, 1.5); }), "Pow(input, 1.5)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return leaky_relu(x, 0.25); }),
            "LeakyRelu(input) alpha=0.25");
  EXPECT_EQ(of_rows([](const Tensor& x) { return clamp(x, -0.5, 2); }), "Clip(input, -0.5, 2)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return silu(x); }),
            "Sigmoid(input)\nMul(input, Sigmoid)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return gelu(x); }),
            "Div(input, 1.4142135)\nErf(Div)\nAdd(Erf, 1)\nMul(input, Add)\nMul(Mul, 0.5)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return gelu(x, GeluForm::kTanh); }),
            "Pow(input, 3)\nMul(Pow, 0.044715)\nAdd(input, Mul)\nMul(Add, 0.7978846)\nTanh(Mul_2)\n"
            "Add(Tanh, 1)\nMul(input, Add_2)\nMul(Mul_3, 0.5)");
}

// 1, 7 and 9 are ONNX's f32, i64 and bool.
TEST(OnnxNodes, Casts) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return cast(gt(x, 0), DType::kF32) * x; }),
            "Greater(input, 0)\nCast(Greater) to=1\nMul(Cast, input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return cast(cast(x, DType::kI64), DType::kF32); }),
            "Cast(input) to=7\nCast(Cast) to=1");
  EXPECT_EQ(of_rows([](const Tensor& x) { return cast(cast(x, DType::kBool), DType::kF32); }),
            "Cast(input) to=9\nCast(Cast) to=1");
  EXPECT_THAT(message_of<UnsupportedError>([] {
                of_rows([](const Tensor& x) { return cast(cast(x, DType::kBf16), DType::kF32); });
              }),
              testing::HasSubstr("to bf16: tensors of the file are f32, i64 or bool"));
}

TEST(OnnxNodes, Arithmetic) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return 3.0 - 2.0 * x; }),
            "Mul(input, 2)\nMul(Mul, -1)\nAdd(Mul_2, 3)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return affine(x, 2, 3); }), "Mul(input, 2)\nAdd(Mul, 3)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return x / 4.0; }), "Div(input, 4)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return add(x, exp(x)); }), "Exp(input)\nAdd(input, Exp)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return mul(x, exp(x)); }), "Exp(input)\nMul(input, Exp)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return sub(exp(x), x); }), "Exp(input)\nSub(Exp, input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return div(exp(x), x); }), "Exp(input)\nDiv(Exp, input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return maximum(exp(x), x); }),
            "Exp(input)\nMax(Exp, input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return minimum(exp(x), x); }),
            "Exp(input)\nMin(Exp, input)");
}

// x: [n, 4, 2, 3].
TEST(OnnxNodes, Attention) {
  const auto text = [](Function function) { return nodes_of(std::move(function), {4, 2, 3}); };
  EXPECT_EQ(text([](const Tensor& x) { return attention(x, x, x, {.scale = 0.5}); }),
            "Transpose(input) perm=[0,2,1,3]\nTranspose(input) perm=[0,2,1,3]\n"
            "Transpose(input) perm=[0,2,1,3]\nTranspose(Transpose) perm=[0,2,1,3]\n"
            "Transpose(Transpose_2) perm=[0,2,3,1]\nTranspose(Transpose_3) perm=[0,2,1,3]\n"
            "MatMul(Transpose_4, Transpose_5)\nMul(MatMul, 0.5)\nSoftmax(Mul) axis=-1\n"
            "MatMul(Softmax, Transpose_6)\nTranspose(MatMul_2) perm=[0,2,1,3]\n"
            "Transpose(Transpose_7) perm=[0,2,1,3]");
  const std::string causal = text([](const Tensor& x) {
    const Tensor keys = slice(x, 1, 0, 2);
    return attention(x, keys, keys, {.causal = true});
  });
  EXPECT_THAT(causal, testing::HasSubstr("Reshape(Transpose_5, [0,2,1,3,-1])"));
  EXPECT_THAT(causal, testing::HasSubstr("Expand(Reshape, [1,2,2,1,1])"));
  EXPECT_THAT(causal, testing::HasSubstr("Reshape([0,1], [2,1])\nLessOrEqual([0,1], Reshape_3)\n"
                                         "Where(LessOrEqual, Mul, -1e+38)"));
  EXPECT_THAT(causal, testing::HasSubstr("Where(LessOrEqual, Softmax, 0)"));
  const std::string masked = text([](const Tensor& x) {
    return attention(x, x, x, {.mask = reshape(mean(x, {1, 3}), {x.size(0), 1, 1, 2})});
  });
  EXPECT_THAT(masked, testing::HasSubstr("Add(Mul, Reshape)"));
  EXPECT_THAT(masked, testing::HasSubstr("GreaterOrEqual(Reshape, -3.4028235e+38)"));
  EXPECT_THAT(message_of<UnsupportedError>([&] {
                text([](const Tensor& x) { return attention(x, x, x, {.dropout = 0.5}); });
              }),
              testing::HasSubstr("it draws random numbers. Give a dropout of 0 outside training"));
}

TEST(OnnxNodes, Choices) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return eq(x, 2); }), "Equal(input, 2)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return ne(x, 2); }), "Equal(input, 2)\nNot(Equal)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return lt(x, 2); }), "Less(input, 2)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return le(x, 2); }), "LessOrEqual(input, 2)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return gt(x, 2); }), "Greater(input, 2)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return ge(x, exp(x)); }),
            "Exp(input)\nGreaterOrEqual(input, Exp)");
  EXPECT_EQ(of_rows([](const Tensor& x) {
              const Tensor mask = gt(x, 2);
              return where(mask, x, exp(x));
            }),
            "Greater(input, 2)\nExp(input)\nWhere(Greater, input, Exp)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return masked_fill(x, gt(x, 2), 3); }),
            "Greater(input, 2)\nWhere(Greater, 3, input)");
  Net bools([](const Tensor& x) { return masked_fill(gt(x, 2), lt(x, 1), 1); });
  EXPECT_THAT(refusal(bools, {4}), testing::HasSubstr("fills bools. Use where()"));
}

TEST(OnnxNodes, Axes) {
  const auto of = [](Function function) { return nodes_of(std::move(function), {4, 4}); };
  EXPECT_EQ(of([](const Tensor& x) { return softmax(x, 1); }), "Softmax(input) axis=1");
  EXPECT_EQ(of([](const Tensor& x) { return log_softmax(x, 2); }), "LogSoftmax(input) axis=2");
  EXPECT_EQ(of([](const Tensor& x) {
              return permute(x, {0, 2, 1});
            }),
            "Transpose(input) perm=[0,2,1]");
  EXPECT_EQ(of([](const Tensor& x) { return slice(x, 2, 1, 4, 2); }),
            "Slice(input, [1], [4], [2], [2])");
  EXPECT_EQ(of([](const Tensor& x) {
              return cat({x, exp(x)}, 2);
            }),
            "Exp(input)\nConcat(input, Exp) axis=2");
  EXPECT_EQ(of([](const Tensor& x) {
              const Tensor none = zeros({x.size(0), 4, 1});
              return cat({none, none, x, none}, 2);
            }),
            "Pad(input, [0,0,2,0,0,1])");
  EXPECT_EQ(of([](const Tensor& x) { return sum(x, {1}, true); }),
            "ReduceSum(input, [1]) keepdims=1");
  EXPECT_EQ(of([](const Tensor& x) { return mean(x, {2}); }),
            "ReduceMean(input) axes=[2] keepdims=0");
  EXPECT_EQ(of([](const Tensor& x) {
              return max(x, {1, 2});
            }),
            "ReduceMax(input) axes=[1,2] keepdims=0");
  EXPECT_EQ(of([](const Tensor& x) {
              return expand(reshape(x, {x.size(0), 4, 4, 1}), {x.size(0), 4, 4, 2});
            }),
            "Reshape(input, [0,4,4,1])\nExpand(Reshape, [1,4,4,2])");
  EXPECT_EQ(of([](const Tensor& x) { return reshape(x, {-1, 16}); }), "Flatten(input) axis=1");
}

// An axis has the length of the result's axis for one batch size, but not for all.
TEST(OnnxNodes, SizesThatAreEqualByChance) {
  for (const std::int64_t size : {2, 3}) {
    const auto swapped = [](const Tensor& x) {
      return reshape(permute(x, {1, 0, 2}), {x.size(0), x.size(1) * 4});
    };
    EXPECT_EQ(nodes_of(swapped, {size, 4}),
              concat("Transpose(input) perm=[1,0,2]\nReshape(Transpose, [-1,", size * 4, "])"));
  }
}

TEST(OnnxNodes, Products) {
  const auto of = [](Function function) { return nodes_of(std::move(function), {4, 4}); };
  EXPECT_EQ(of([](const Tensor& x) { return matmul(x, exp(x)); }),
            "Exp(input)\nMatMul(input, Exp)");
  EXPECT_EQ(of([](const Tensor& x) { return matmul(exp(x), x, {.transpose_a = true}); }),
            "Exp(input)\nTranspose(Exp) perm=[0,2,1]\nMatMul(Transpose, input)");
  EXPECT_EQ(of([](const Tensor& x) { return matmul(exp(x), x, {.transpose_b = true}); }),
            "Exp(input)\nTranspose(input) perm=[0,2,1]\nMatMul(Exp, Transpose)");
  nn::Linear linear(4, 4);
  EXPECT_EQ(nodes_of(linear, {4}), "Gemm(input, weight, bias) transB=1");
  EXPECT_EQ(nodes_of(linear, {4, 4}),
            "Transpose(weight) perm=[1,0]\nMatMul(input, Transpose)\nAdd(MatMul, bias)");
  nn::Embedding tokens(5, 4);
  EXPECT_EQ(nodes_of(tokens, {4}, DType::kI64), "Gather(weight, input)");
}

TEST(OnnxNodes, Windows) {
  const auto pads = Padding2d(2, 1, 0, 1);  // top, bottom, left, right
  nn::Conv2d conv(4, 4, {3, 2},
                  {.stride = {2, 1}, .padding = pads, .dilation = {1, 2}, .groups = 2});
  EXPECT_EQ(nodes_of(conv, {4, 8, 8}),
            "Conv(input, weight, bias) kernel_shape=[3,2] strides=[2,1] pads=[2,0,1,1] "
            "dilations=[1,2] group=2");
  nn::ConvTranspose2d back(4, 4, {3, 2},
                           {.stride = {2, 3},
                            .padding = pads,
                            .output_padding = {0, 1},
                            .dilation = {2, 1},
                            .groups = 2});
  EXPECT_EQ(nodes_of(back, {4, 8, 8}),
            "ConvTranspose(input, weight, bias) kernel_shape=[3,2] strides=[2,3] pads=[2,0,1,1] "
            "dilations=[2,1] group=2 output_padding=[0,1]");
  nn::MaxPool2d largest({3, 4}, {.stride = Size2d(2, 1), .padding = pads});
  EXPECT_EQ(nodes_of(largest, {4, 8, 8}),
            "MaxPool(input) kernel_shape=[3,4] strides=[2,1] pads=[2,0,1,1]");
  nn::AvgPool2d mean({3, 4}, {.stride = Size2d(2, 1), .padding = pads, .count_include_pad = false});
  EXPECT_EQ(nodes_of(mean, {4, 8, 8}),
            "AveragePool(input) kernel_shape=[3,4] strides=[2,1] pads=[2,0,1,1] "
            "count_include_pad=0");
  nn::AvgPool2d columns({8, 4});
  EXPECT_EQ(nodes_of(columns, {4, 8, 8}),
            "AveragePool(input) kernel_shape=[8,4] strides=[8,4] pads=[0,0,0,0] "
            "count_include_pad=1");
  nn::GlobalAvgPool2d whole;
  EXPECT_EQ(nodes_of(whole, {4, 8, 8}), "GlobalAveragePool(input)");
  nn::Upsample repeated({2, 3});
  EXPECT_EQ(nodes_of(repeated, {4, 8, 8}),
            "Resize(input, , [1,1,2,3]) mode=nearest coordinate_transformation_mode=asymmetric "
            "nearest_mode=floor");
  nn::Upsample between({2, 3}, {nn::UpsampleMode::kBilinear});
  EXPECT_EQ(nodes_of(between, {4, 8, 6}),
            "Resize(input, , [1,1,2,3]) mode=linear coordinate_transformation_mode=half_pixel");
}

// Batch norm with the operations that follow it in ResNets.
class Joined final : public nn::Module {
 public:
  Joined() { add("n", norm_); }
  Tensor forward(const Tensor& x) override { return norm_.forward_add_relu(x, x); }

 private:
  nn::BatchNorm2d norm_{2};
};

// Batch norm without scale and shift.
class Bare final : public nn::Module {
 public:
  Bare() {
    add_buffer("mean", mean_);
    add_buffer("var", var_);
  }
  Tensor forward(const Tensor& x) override {
    return batch_norm(x, {}, {}, {.training = false, .running_mean = mean_, .running_var = var_}).y;
  }

 private:
  Tensor mean_ = zeros({2});
  Tensor var_ = ones({2});
};

TEST(OnnxNodes, Norms) {
  nn::BatchNorm2d batch(2, {.eps = 0.25});
  EXPECT_EQ(nodes_of(batch, {2, 3, 3}),
            "BatchNormalization(input, weight, bias, running_mean, running_var) epsilon=0.25");
  Bare bare;
  EXPECT_EQ(nodes_of(bare, {2}),
            "BatchNormalization(input, [1,1], [0,0], mean, var) epsilon=1e-05");
  Joined joined;
  EXPECT_EQ(nodes_of(joined, {2, 3, 3}),
            "BatchNormalization(input, n.weight, n.bias, n.running_mean, n.running_var) "
            "epsilon=1e-05\nAdd(n/BatchNormalization, input)\nRelu(n/Add)");
  nn::LayerNorm rows({3, 4}, {.eps = 0.25});
  EXPECT_EQ(nodes_of(rows, {2, 3, 4}),
            "LayerNormalization(input, weight, bias) axis=-2 epsilon=0.25");
  EXPECT_EQ(of_rows([](const Tensor& x) { return layer_norm(x, {4}, {}, {}, 0.25); }),
            "LayerNormalization(input, [1,1,1,1]) axis=-1 epsilon=0.25");
  nn::GroupNorm groups(2, 6, {.eps = 0.25});
  EXPECT_EQ(nodes_of(groups, {6, 3, 4}),
            "Reshape(input, [0,2,-1])\nInstanceNormalization(Reshape, [1,1], [0,0]) epsilon=0.25\n"
            "Reshape(InstanceNormalization, [0,6,3,4])\nUnsqueeze(weight, [1,2])\n"
            "Mul(Reshape_2, Unsqueeze)\nUnsqueeze(bias, [1,2])\nAdd(Mul, Unsqueeze_2)");
  EXPECT_EQ(nodes_of(groups, {6}),
            "Reshape(input, [0,2,-1])\nInstanceNormalization(Reshape, [1,1], [0,0]) epsilon=0.25\n"
            "Reshape(InstanceNormalization, [0,6])\nMul(Reshape_2, weight)\nAdd(Mul, bias)");
}

// The maximum of bools says whether one is true, but ONNX only has a maximum of numbers.
TEST(OnnxNodes, TheLargestOfBools) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return max(gt(x, 2), {1}); }),
            "Greater(input, 2)\nCast(Greater) to=1\nReduceMax(Cast) axes=[1] keepdims=0\n"
            "Cast(ReduceMax) to=9");
}

}  // namespace
}  // namespace mezzo::interchange
