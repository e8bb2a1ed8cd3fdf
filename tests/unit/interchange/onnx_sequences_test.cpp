// Tests the translation of the operations of sequence models: the nodes, as text.
#include <gmock/gmock.h>

#include "mezzo/nn/nn.h"
#include "mezzo/ops/argsort.h"
#include "mezzo/ops/cumsum.h"
#include "mezzo/ops/elementary.h"
#include "mezzo/ops/gather.h"
#include "mezzo/ops/norm.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/rms_norm.h"
#include "mezzo/ops/rope.h"
#include "mezzo/ops/triangular.h"
#include "tests/unit/interchange/onnx_text.h"

namespace mezzo::interchange {
namespace {

using testing::HasSubstr;

TEST(OnnxSequences, ElementaryFunctions) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return log1p(x); }), "Add(input, 1)\nLog(Add)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return rsqrt(x); }), "Sqrt(input)\nReciprocal(Sqrt)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return erf(x); }), "Erf(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return sin(x); }), "Sin(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return cos(x); }), "Cos(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return softplus(x); }), "Softplus(input)");
  EXPECT_EQ(of_rows([](const Tensor& x) { return logsigmoid(x); }),
            "Mul(input, -1)\nSoftplus(Mul)\nDiv(Softplus, -1)");
}

TEST(OnnxSequences, RmsNorm) {
  nn::RmsNorm rows(4, {.eps = 0.25});
  EXPECT_EQ(nodes_of(rows, {3, 4}),
            "Mul(input, input)\nReduceMean(Mul) axes=[-1]\nAdd(ReduceMean, 0.25)\nSqrt(Add)\n"
            "Div(input, Sqrt)\nMul(Div, weight)");
}

TEST(OnnxSequences, Norm) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return norm(x, 2, {1}, true); }),
            "ReduceL2(input) axes=[1] keepdims=1");
}

TEST(OnnxSequences, RopeOfHalves) {
  const std::string text =
      nodes_of([](const Tensor& x) { return rope(x, {.offset = 0, .axis = 1}); }, {1, 2});
  EXPECT_EQ(text,
            "Slice(input, [0], [1], [-1], [1])\nSlice(input, [1], [2], [-1], [1])\n"
            "Reshape([1], [1,1])\nReshape([0], [1,1])\n"
            "Mul(Slice, Reshape)\nMul(Slice_2, Reshape_2)\nSub(Mul, Mul_2)\n"
            "Mul(Slice_2, Reshape)\nMul(Slice, Reshape_2)\nAdd(Mul_3, Mul_4)\n"
            "Concat(Sub, Add) axis=-1");
}

TEST(OnnxSequences, RopeOfNeighboursKeepsTheShape) {
  Net net(
      [](const Tensor& x) { return rope(x, {.pairing = RopePairing::kNeighbours, .axis = 1}); });
  onnx::ModelProto model = exported(net, {5, 3, 8});  // [t, h, d]
  EXPECT_THAT(checked_output(model), testing::ElementsAre("N", "5", "3", "8"));
  Net halves([](const Tensor& x) { return rope(x); });
  model = exported(halves, {3, 5, 8});
  EXPECT_THAT(checked_output(model), testing::ElementsAre("N", "3", "5", "8"));
}

TEST(OnnxSequences, RopeRefusesPositionsOfItsOwnAndTheBatch) {
  Net given([](const Tensor& x) { return rope(x, zeros({5}, DType::kI64)); });
  EXPECT_THAT(refusal(given, {5, 8}), HasSubstr("rope in the network itself: it has positions"));
  Net batch([](const Tensor& x) { return rope(x, {.axis = 0}); });
  EXPECT_THAT(refusal(batch, {8}), HasSubstr("axis 0 of its input 0"));
}

TEST(OnnxSequences, SumsAtIndices) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return scatter_add(x, 1, argsort(x), x); }),
            "TopK(input, [4]) axis=1 largest=0\n"
            "ScatterElements(input, TopK, input) axis=1 reduction=add");
}

TEST(OnnxSequences, Sorting) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return topk(x, 2).values; }),
            "TopK(input, [2]) axis=1 largest=1\nGatherElements(input, TopK) axis=1");
  Net net([](const Tensor& x) { return sort(x).values; });
  onnx::ModelProto model = exported(net, {4});
  EXPECT_THAT(checked_output(model), testing::ElementsAre("N", "4"));
}

TEST(OnnxSequences, CumulativeSumsAndTriangles) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return cumsum(x, 1); }), "CumSum(input, 1) reverse=0");
  const auto of_matrices = [](Function function) { return nodes_of(std::move(function), {3, 4}); };
  EXPECT_EQ(of_matrices([](const Tensor& x) { return tril(x, 1); }), "Trilu(input, 1) upper=0");
  EXPECT_EQ(of_matrices([](const Tensor& x) { return triu(x); }), "Trilu(input, 0) upper=1");
  EXPECT_THAT(
      message_of<UnsupportedError>([] { of_rows([](const Tensor& x) { return cumsum(x, 0); }); }),
      HasSubstr("axis 0 of its input 0"));
}

TEST(OnnxSequences, PaddingOfZeros) {
  EXPECT_EQ(of_rows([](const Tensor& x) { return pad(x, {1, 2}); }), "Pad(input, [0,1,0,2])");
}

}  // namespace
}  // namespace mezzo::interchange
