// Tests whole networks, painted and cast: the dtype of each part, and that autocast would have made
// at least as many casts.
#include <memory>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/graph/passes/insert_casts.h"
#include "mezzo/graph/verify.h"
#include "tests/unit/graph/eager_casts.h"
#include "tests/unit/graph/paints_of.h"

namespace mezzo::graph {
namespace {

struct Painted {
  std::string paints{};
  std::size_t casts = 0;
  std::size_t eager_casts = 0;
};

Painted painted(std::string_view text) {
  Program program = program_in(text);
  EXPECT_NO_THROW(verify(program));
  Painted result{.eager_casts = EagerRun(program).casts()};
  result.paints = paints_of(program);
  result.casts = insert_casts(program);
  EXPECT_NO_THROW(verify(program));
  return result;
}

TEST(PaintedNetworks, PerceptronWithLoss) {
  const Painted net = painted(R"(program(x: f32[4, 8], t: i64[4]) {
  state fc1.weight: f32[16, 8]
  state fc1.bias: f32[16]
  state fc2.weight: f32[10, 16]
  %0: f32[4, 16] = linear(x, fc1.weight, fc1.bias) @fc1 [auto/bf16]
  %1: f32[4, 16] = relu(%0) [auto/bf16]
  %2: f32[4, 10] = linear(%1, fc2.weight, _) @fc2 [auto/bf16]
  %3: f32[], %4: f32[4, 2] = cross_entropy(%2, t) [auto/bf16]
  return %3
}
)");
  EXPECT_EQ(net.paints, "linear bf16, relu bf16, linear bf16, cross_entropy -");
  EXPECT_EQ(net.casts, 3);
  EXPECT_EQ(net.eager_casts, 3);
}

// Updating the running statistics is host work, which reads f32 whatever x is.
constexpr const char* kBottleneck = R"(program(x: f32[2, 8, 4, 4] channels_last) {
  state conv1: f32[8, 8, 1, 1]
  state conv2: f32[8, 8, 1, 1]
  state scale: f32[8]
  state shift: f32[8]
  %0: f32[2, 8, 4, 4] channels_last = conv2d(x, conv1, _) @a [auto/bf16]
  %1: f32[2, 8, 4, 4] channels_last, %2: f32[8], %3: f32[8] = batch_norm(%0, scale, shift, _, _) @b [auto/bf16]
  host running_statistics(%2, %3) @b
  %4: f32[2, 8, 4, 4] channels_last = relu(%1) [auto/bf16]
  %5: f32[2, 8, 4, 4] channels_last = conv2d(%4, conv2, _) @c [auto/bf16]
  %6: f32[2, 8, 4, 4] channels_last = add(%5, x) [auto/bf16]
  %7: f32[2, 8, 4, 4] channels_last = relu(%6) [auto/bf16]
  %8: f32[2, 8, 4, 4] channels_last = conv2d(%7, conv1, _) @d [auto/bf16]
  return %8
}
)";

TEST(PaintedNetworks, BottleneckWithBatchNorm) {
  const Painted net = painted(kBottleneck);
  EXPECT_EQ(net.paints,
            "conv2d bf16, batch_norm bf16, running_statistics -, relu bf16, conv2d bf16, add bf16, "
            "relu bf16, conv2d bf16");
  // x, two weights, the result; autocast also casts a summand to f32 and the result back.
  EXPECT_EQ(net.casts, 4);
  EXPECT_EQ(net.eager_casts, 6);
}

TEST(PaintedNetworks, BlockOfATransformer) {
  const Painted net = painted(R"(program(tokens: i64[8]) {
  state table: f32[32, 8]
  state positions: f32[8, 8]
  state q: f32[8, 8]
  state k: f32[8, 8]
  state v: f32[8, 8]
  state up: f32[8, 8]
  state down: f32[8, 8]
  state scale: f32[8]
  %0: f32[8, 8] = embedding(table, tokens) [auto/bf16]
  %1: f32[8, 8] = add(%0, positions) [auto/bf16]
  %2: f32[8, 8], %20: f32[8], %21: f32[8] = layer_norm(%1, scale, _) @norm1 [auto/bf16]
  %3: f32[8, 8] = linear(%2, q, _) [auto/bf16]
  %4: f32[8, 8] = linear(%2, k, _) [auto/bf16]
  %5: f32[8, 8] = linear(%2, v, _) [auto/bf16]
  %6: f32[8, 8] strides=[1, 8] = permute(%4) {shape=[1, 0]} [auto/bf16]
  %7: f32[8, 8] = matmul(%3, %6) [auto/bf16]
  %8: f32[8, 8] = softmax(%7) [auto/bf16]
  %9: f32[8, 8] = matmul(%8, %5) [auto/bf16]
  %10: f32[8, 8] = add(%1, %9) [auto/bf16]
  %11: f32[8, 8], %22: f32[8], %23: f32[8] = layer_norm(%10, scale, _) @norm2 [auto/bf16]
  %12: f32[8, 8] = linear(%11, up, _) [auto/bf16]
  %13: f32[8, 8] = gelu(%12) [auto/bf16]
  %14: f32[8, 8] = linear(%13, down, _) [auto/bf16]
  %15: f32[8, 8] = add(%10, %14) [auto/bf16]
  %16: f32[8, 8], %24: f32[8], %25: f32[8] = layer_norm(%15, scale, _) @norm3 [auto/bf16]
  %17: f32[8, 8] = linear(%16, q, _) @head [auto/bf16]
  return %17
}
)");
  // The stream is f32 up to the first product, and 16 bits from then on.
  EXPECT_EQ(net.paints,
            "embedding -, add -, layer_norm -, linear bf16, linear bf16, linear bf16, "
            "permute bf16, matmul bf16, softmax f32, matmul bf16, add bf16, layer_norm bf16, "
            "linear bf16, gelu bf16, linear bf16, add bf16, layer_norm bf16, linear bf16");
  // Five weights, the first normalisation, the input and output of the softmax, the stream, the
  // result.
  EXPECT_EQ(net.casts, 10);
  EXPECT_EQ(net.eager_casts, 15);
}

TEST(PaintedNetworks, SharedWeightsAndADiamond) {
  const Painted net = painted(R"(program(x: f32[8, 8]) {
  state w: f32[8, 8]
  %0: f32[8, 8] = linear(x, w, _) [auto/f16]
  %1: f32[8, 8] = relu(%0) [auto/f16]
  %2: f32[8, 8] = linear(%1, w, _) [auto/f16]
  %3: f32[8, 8] = sigmoid(%1) [auto/f16]
  %4: f32[8, 8] = mul(%3, x) [auto/f16]
  %5: f32[8, 8] = add(%2, %4) [auto/f16]
  %6: f32[8, 8] = matmul(%5, w) [auto/f16]
  return %6
}
)");
  EXPECT_EQ(net.paints,
            "linear f16, relu f16, linear f16, sigmoid f16, mul f16, add f16, matmul f16");
  EXPECT_EQ(net.casts, 3);
  EXPECT_EQ(net.eager_casts, 6);
}

// Programs of twelve random calls, under one policy or several.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : state_(seed) {
    text_ = "program(x: f32[4, 4], y: f32[4, 4]) {\n  state w: f32[4, 4]\n  state v: f32[4, 4]\n";
    for (int i = 0; i < 12; ++i) add_call(i);
    text_ += concat("  return ", any(), ", ", any(), "\n}\n");
  }
  const std::string& text() const { return text_; }

 private:
  std::uint64_t below(std::uint64_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % n;
  }
  std::string any() { return values_[below(values_.size())]; }

  void add_call(int index) {
    static constexpr const char* kUnary[] = {"relu", "exp", "sqrt", "tanh", "softmax"};
    static constexpr const char* kBinary[] = {"add", "mul", "matmul", "matmul"};
    static constexpr const char* kPolicies[] = {" [auto/bf16]", " [auto/bf16]", " [auto/bf16]",
                                                " [auto/bf16]", " [auto/f16]",  " [O1/bf16]",
                                                " [O2/bf16]",   " [O3/bf16]",   ""};
    std::string call;
    std::string more;  // results
    const std::uint64_t kind = below(11);
    if (kind < 5) call = concat(kUnary[below(5)], "(", any(), ")");
    if (kind >= 5) call = concat(kBinary[below(4)], "(", any(), ", ", any(), ")");
    if (kind == 9) call = concat("permute(", any(), ") {shape=[0, 1]}");
    if (kind == 10) {
      call = concat("layer_norm(", any(), ", _, _)");
      more = concat(", %mean", index, ": f32[4], %rstd", index, ": f32[4]");
    }
    const char* policy = kPolicies[mixed_ ? below(std::size(kPolicies)) : 0];
    text_ += concat("  %", index, ": f32[4, 4]", more, " = ", call, policy, "\n");
    values_.push_back(concat("%", index));
    if (index >= 3) values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(below(5)));
  }

  std::uint64_t state_;
  bool mixed_ = below(2) == 0;
  std::vector<std::string> values_{"x", "y", "w", "v"};
  std::string text_;
};

TEST(PaintedNetworks, NeverMoreCastsThanAutocast) {
  std::size_t saved = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Program program = program_in(RandomProgram(seed).text());
    const EagerRun eager(program);
    paint_precision(program);
    const std::string how = to_text(program);
    std::vector<ValueId> outside;  // outside of regions, where values have autocast's dtypes
    for (const Node& node : program.nodes) {
      if (node.policy == nullptr) outside.push_back(node.outputs[0]);
    }
    const std::size_t casts = insert_casts(program);
    ASSERT_NO_THROW(verify(program)) << how;
    ASSERT_LE(casts, eager.casts()) << how;
    for (const ValueId value : outside) {
      ASSERT_EQ(program.spec(value).dtype, eager.dtype_of(value)) << how;
    }
    saved += eager.casts() - casts;
  }
  EXPECT_GT(saved, 600);
}

}  // namespace
}  // namespace mezzo::graph
