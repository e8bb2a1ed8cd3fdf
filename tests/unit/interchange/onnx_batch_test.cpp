// Tests how an exported graph treats the batch, whose size is open.
#include <map>

#include <gmock/gmock.h>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/group_norm.h"
#include "mezzo/ops/layer_norm.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/interchange/onnx_model.h"

namespace mezzo::interchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Function = std::function<Tensor(const Tensor&)>;

// The refusal of a function of [n, 3, 4].
std::string refusal_of(Function function) {
  Net net(std::move(function));
  return refusal(net, {3, 4});
}

TEST(Onnx, TheBatchStaysWhole) {
  const auto says = HasSubstr("is that of the batch, whose size is open in ONNX");
  EXPECT_THAT(refusal_of([](const Tensor& x) { return slice(x, 0, 0, 1); }), says);
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                return slice(permute(x, {1, 0, 2}), 1, 0, 1);
              }),
              says);
  EXPECT_THAT(refusal_of([](const Tensor& x) { return mean(x); }), says);
  EXPECT_THAT(refusal_of([](const Tensor& x) { return expand(mean(x, {0}, true), x.shape()); }),
              says);
  EXPECT_THAT(refusal_of([](const Tensor& x) { return layer_norm(x, x.shape()); }), says);
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                return expand(x, {x.size(0), x.size(0), 3, 4});
              }),
              HasSubstr("makes as many as the batch has"));
}

TEST(Onnx, StatisticsAreNotThoseOfTheBatch) {
  Net net([](const Tensor& x) { return batch_norm(x, {}, {}).y; });
  EXPECT_THAT(refusal(net, {4}), HasSubstr("batch_norm in the network itself: it normalises by the "
                                           "statistics of the batch"));
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                return group_norm(reshape(permute(x, {1, 0, 2}), {3, x.size(0) * 4}), 1);
              }),
              HasSubstr("axis 1 of its input 0"));
}

TEST(Onnx, TheBatchEndsAsTheFirstAxis) {
  const auto refused = [](Function function) {
    Net net(std::move(function));
    return message_of<ArgumentError>([&] { serialize_onnx(net, {4}); });
  };
  const auto says = HasSubstr("Its first axis must be that of the batch");
  EXPECT_THAT(refused([](const Tensor& x) { return matmul(x, x, {.transpose_a = true}); }), says);
  EXPECT_THAT(refused([](const Tensor& x) { return transpose(x); }), says);
  EXPECT_THAT(refused([](const Tensor& x) { return relu(reshape(x, {2, -1, 2})); }), says);
  EXPECT_THAT(refused([](const Tensor& x) { return relu(reshape(x, {-1})); }), says);
}

// Steps first, as in recurrent networks, and steps and batch merged into one axis.
TEST(Onnx, TheBatchMayLieElsewhereInBetween) {
  Net net([](const Tensor& x) {  // x: [n, 3, 4]
    const std::int64_t n = x.size(0);
    const Tensor steps = permute(x, {1, 0, 2});  // [3, n, 4]
    const Tensor halves = reshape(steps, {3, n * 2, 2});
    const Tensor rows = reshape(softmax(halves), {3 * n, 4});
    const Tensor padded = cat({reshape(rows, {3, n, 4}), zeros({1, n, 4})}, 0);
    const Tensor later = slice(padded, 0, 1, 4) + expand(mean(steps, {0}, true), {3, n, 4});
    return permute(later, {1, 0, 2});
  });
  onnx::ModelProto model = exported(net, {3, 4});
  // ONNX names the remaining axis, -1, by itself.
  EXPECT_THAT(checked_output(model), ElementsAre(testing::StartsWith("unk"), "3", "4"));
  std::map<std::string, std::vector<std::int64_t>> numbers;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    numbers[tensor.name()] = {tensor.int64_data().begin(), tensor.int64_data().end()};
  }
  const auto sizes = [&](const char* name) { return numbers[node(model, name).input(1)]; };
  EXPECT_THAT(sizes("Reshape"), ElementsAre(3, -1, 2));
  EXPECT_THAT(sizes("Reshape_2"), ElementsAre(-1, 4));
  EXPECT_THAT(sizes("Reshape_3"), ElementsAre(3, -1, 4));
  EXPECT_THAT(sizes("Pad"), ElementsAre(0, 0, 0, 1, 0, 0));
  EXPECT_THAT(sizes("Expand"), ElementsAre(3, 1, 4));
}

TEST(Onnx, AnotherAxisOfTheOutputMayDependOnTheBatch) {
  Net products([](const Tensor& x) { return matmul(x, x, {.transpose_b = true}); });
  onnx::ModelProto model = exported(products, {4});
  onnx::checker::check_model(model);
  const auto& shape = model.graph().output(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_param(), "N");
  EXPECT_FALSE(shape.dim(1).has_dim_value());
}

TEST(Onnx, ZerosArePaddingAtTheEndsOfOtherAxes) {
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                return cat({x, zeros({x.size(0), 1, 4}), x}, 1);
              }),
              HasSubstr("zeros between its inputs"));
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                return reshape(cat({x, zeros(x.shape())}, 0), {x.size(0), 24});
              }),
              HasSubstr("is neither the network's input nor state"));
}

TEST(Onnx, NumbersMustNotDependOnTheBatch) {
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x / static_cast<double>(x.size(0)); }),
              HasSubstr("div_number in the network itself: it depends on the size of the batch"));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return slice(x, 2, 0, x.size(0)); }),
              HasSubstr("slice in the network itself: it depends on the size of the batch"));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x.size(0) == 2 ? relu(x) : exp(x); }),
              HasSubstr("calls other operations for a batch of 2 than for one of 3"));
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                const std::int64_t n = x.size(0);
                return reshape(reshape(x, n == 2 ? Shape{n, 12} : Shape{n, 12, 1}), {n, 3, 4});
              }),
              HasSubstr("Give it as many axes for all of them"));
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                const std::int64_t n = x.size(0);
                const Tensor rows = reshape(x, {n, 12});
                const Tensor products = matmul(rows, rows, {.transpose_b = true});
                return reshape(reshape(products, {n * n}), {n, n});
              }),
              HasSubstr("gives several axes a size that depends on that of the batch"));
}

}  // namespace
}  // namespace mezzo::interchange
