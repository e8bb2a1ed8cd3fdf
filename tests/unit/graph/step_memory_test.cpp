// Tests the memory of steps: captured steps need no more than eager ones, even with other work in
// between.
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/graph/compile.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/model.h"
#include "tests/unit/tiny_unet.h"

namespace mezzo::graph {
namespace {

// A hand-written transformer layer. x: [n, tokens, width].
class TransformerBlock final : public nn::Module {
 public:
  TransformerBlock(std::int64_t width, std::int64_t heads)
      : width_(width), heads_(heads), norm_(width), queries_keys_values_(width, 3 * width) {
    add("norm", norm_);
    add("queries_keys_values", queries_keys_values_);
    add("up", up_);
    add("down", down_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = x + attention(queries_keys_values_(norm_(x)));
    return y + down_(gelu(up_(y)));
  }

 private:
  Tensor attention(const Tensor& all) const {
    const std::int64_t n = all.size(0);
    const std::int64_t tokens = all.size(1);
    const std::int64_t width = width_ / heads_;
    const Tensor parts = permute(reshape(all, {n, tokens, 3, heads_, width}), {2, 0, 3, 1, 4});
    const auto part = [&](std::int64_t i) {
      return reshape(slice(parts, 0, i, i + 1), {n, heads_, tokens, width});
    };
    const Tensor scores = matmul(part(0), part(1), {.transpose_b = true});
    const Tensor shares = softmax(scores / std::sqrt(static_cast<double>(width)));
    return reshape(permute(matmul(shares, part(2)), {0, 2, 1, 3}), {n, tokens, width_});
  }

  std::int64_t width_;
  std::int64_t heads_;
  nn::LayerNorm norm_;
  nn::Linear queries_keys_values_;
  nn::Linear up_{width_, 4 * width_};
  nn::Linear down_{4 * width_, width_};
};

// Images in patches of 4x4 pixels, through two such layers.
class SmallVit final : public nn::Module {
 public:
  SmallVit() {
    add("patches", patches_);
    add("first", first_);
    add("second", second_);
    add("head", head_);
  }

  Tensor forward(const Tensor& images) override {
    const Tensor x = patches_(images);
    const Tensor tokens = permute(reshape(x, {x.size(0), kWidth, -1}), {0, 2, 1});
    return head_(mean(second_(first_(tokens)), {1}));
  }

 private:
  static constexpr std::int64_t kWidth = 64;
  nn::Conv2d patches_{3, kWidth, 4, {.stride = 4}};
  TransformerBlock first_{kWidth, 4};
  TransformerBlock second_{kWidth, 4};
  nn::Linear head_{kWidth, 10};
};

// A hand-written recurrent network. x: [n, steps, 24].
class SmallGru final : public nn::Module {
 public:
  SmallGru() {
    add("input", input_);
    add("state", state_);
    add("head", head_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor all = input_(x);
    Tensor h = zeros({x.size(0), kWidth});
    for (std::int64_t i = 0; i < x.size(1); ++i) {
      h = next(reshape(slice(all, 1, i, i + 1), {x.size(0), 3 * kWidth}), h);
    }
    return head_(h);
  }

 private:
  static constexpr std::int64_t kWidth = 64;

  Tensor next(const Tensor& from_input, const Tensor& h) {
    const Tensor from_state = state_(h);
    const auto gate = [](const Tensor& x, std::int64_t i) {
      return slice(x, 1, i * kWidth, (i + 1) * kWidth);
    };
    const Tensor reset = sigmoid(gate(from_input, 0) + gate(from_state, 0));
    const Tensor keep = sigmoid(gate(from_input, 1) + gate(from_state, 1));
    const Tensor wanted = tanh(gate(from_input, 2) + reset * gate(from_state, 2));
    return (1.0 - keep) * wanted + keep * h;
  }

  nn::Linear input_{24, 3 * kWidth};
  nn::Linear state_{kWidth, 3 * kWidth};
  nn::Linear head_{kWidth, 10};
};

struct Work {
  std::string name;
  std::function<std::unique_ptr<nn::Module>()> make;
  Shape inputs;
  Shape labels;
};

std::vector<Work> works() {
  return {
      {"vit", [] { return std::make_unique<SmallVit>(); }, {32, 3, 32, 32}, {32}},
      {"gru", [] { return std::make_unique<SmallGru>(); }, {64, 30, 24}, {64}},
      {"unet", [] { return std::make_unique<test::TinyUnet>(3, 4); }, {8, 3, 32, 32}, {8, 32, 32}}};
}

// The peak memory of three steps with an evaluation after each.
std::int64_t peak_of(const Work& work, DType dtype, bool graph) {
  manual_seed(1);
  const auto net = work.make();
  optim::Adam adam(net->parameters());
  train::Model model(*net, nn::CrossEntropyLoss(), adam,
                     {.metrics = {"loss"},
                      .amp = {.level = dtype == DType::kF32 ? "O0" : "O2", .dtype = DType::kBf16},
                      .graph = graph});
  const Tensor x = randn(work.inputs);
  const Tensor labels = zeros(work.labels, DType::kI64);
  data::TensorBatches batches(x, labels, {.batch_size = work.inputs[0]});
  cpu_allocator().reset_peak();
  for (int i = 0; i < 3; ++i) {
    model.train_step()(x, labels);
    model.eval(batches);
  }
  return cpu_allocator().stats().peak_bytes;
}

// Memory besides the arena: what does not fit into its free part, and the thread buffers of a
// kernel, which do not grow with the network.
constexpr std::int64_t kThreadBuffers = 1 << 19;

TEST(StepMemory, NoMoreCapturedThanEagerlyWithEvaluationsInBetween) {
  for (const Work& work : works()) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const std::int64_t eager = peak_of(work, dtype, false);
      EXPECT_LE(peak_of(work, dtype, true), eager + eager / 50 + kThreadBuffers)
          << work.name << " in " << mezzo::name_of(dtype) << ", " << eager << " eagerly";
    }
  }
}

std::int64_t live_bytes() { return cpu_allocator().stats().live_bytes; }

struct Squares {
  Tensor x{};
  CompiledStep step = compile([](std::span<const Tensor> in) {
    return std::vector<Tensor>{sum(relu(in[0] * in[0]) * in[0])};
  });
  double run(std::int64_t n) {
    const Tensor in[] = {full({n}, 2)};
    return step(in)[0].item();
  }
};

TEST(StepMemory, ProgramsOfOneStepShareTheirArena) {
  constexpr std::int64_t kFew = 1 << 16;
  constexpr std::int64_t kMany = 1 << 18;
  Squares one;
  one.run(kMany);
  const std::int64_t with_one = live_bytes();
  EXPECT_EQ(one.run(kFew), 8.0 * kFew);
  EXPECT_EQ(one.step.programs(), 2U);
  EXPECT_EQ(live_bytes(), with_one);
  // Alternating, and after a larger one: the results are the same.
  EXPECT_EQ(one.run(kMany), 8.0 * kMany);
  EXPECT_EQ(one.run(2 * kMany), 16.0 * kMany);
  EXPECT_EQ(one.run(kFew), 8.0 * kFew);
}

TEST(StepMemory, IsGivenBackUntilTheNextRun) {
  constexpr std::int64_t kMany = 1 << 18;
  Squares one;
  const std::int64_t before = live_bytes();
  one.run(kMany);
  EXPECT_GT(live_bytes(), before + kMany);
  one.step.release_memory();
  EXPECT_LT(live_bytes(), before + kMany);
  EXPECT_EQ(one.run(kMany), 8.0 * kMany);
}

}  // namespace
}  // namespace mezzo::graph
