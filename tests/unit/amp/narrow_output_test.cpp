// Tests losses that read 16-bit outputs directly: the same bits as after a cast to f32, in less
// memory.
#include <gtest/gtest.h>

#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/loss.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::amp {
namespace {

constexpr std::int64_t kExamples = 12;
constexpr std::int64_t kClasses = 37;

std::vector<CrossEntropyOptions> options() {
  std::vector<float> weights;
  for (std::int64_t i = 0; i < kClasses; ++i) weights.push_back(0.5F + 0.125F * float(i % 7));
  return {{},
          {.label_smoothing = 0.1},
          {.reduction = Reduction::kSum},
          {.ignore_index = 3},
          {.label_smoothing = 0.1,
           .ignore_index = 3,
           .class_weights = from_values(weights, {kClasses})}};
}

struct Trained {
  std::vector<float> weight;
  std::vector<double> losses;

  bool operator==(const Trained&) const = default;
};

// The result of three steps at O2.
Trained trained(const LossFunction& loss, DType dtype, std::int64_t parts) {
  manual_seed(3);
  nn::Linear net(8, kClasses);
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  auto step = build_train_network(
      net, loss, sgd, {.level = "O2", .dtype = dtype, .step = {.micro_batches = parts}});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < kExamples; ++i) labels.push_back(i % 5);
  Trained result;
  for (int i = 0; i < 3; ++i) {
    result.losses.push_back(step(randn({kExamples, 8}), from_values(labels, {kExamples})).loss);
  }
  result.weight = net.weight().to_vector<float>();
  return result;
}

// The same loss without the declaration that it reads 16 bits.
struct OfWidened {
  nn::CrossEntropyLoss loss;
  Tensor operator()(const Tensor& output, const Tensor& labels) const {
    EXPECT_EQ(output.dtype(), DType::kF32);
    return loss(output, labels);
  }
  Reduction reduction() const { return loss.reduction(); }
  Tensor sum(const Tensor& output, const Tensor& labels) const {
    EXPECT_EQ(output.dtype(), DType::kF32);
    return loss.sum(output, labels);
  }
  Tensor count(const Tensor& labels) const { return loss.count(labels); }
};

TEST(NarrowOutput, HasTheBitsOfTheWidenedOne) {
  for (const CrossEntropyOptions& each : options()) {
    const nn::CrossEntropyLoss loss(each);
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      for (const std::int64_t parts : {1, 3}) {
        EXPECT_EQ(trained(loss, dtype, parts), trained(OfWidened{loss}, dtype, parts));
      }
    }
  }
}

TEST(NarrowOutput, OfManyClassesTakesLessMemory) {
  constexpr std::int64_t kRows = 256;
  constexpr std::int64_t kMany = 20'000;
  const auto peak_of = [](const auto& loss, DType dtype) {
    nn::Linear net(16, kMany);
    optim::Sgd sgd(net.parameters());
    auto step = build_train_network(net, loss, sgd,
                                    {.level = dtype == DType::kF32 ? "O0" : "O2", .dtype = dtype});
    const Tensor x = randn({kRows, 16});
    const std::int64_t before = cpu_allocator().stats().live_bytes;
    cpu_allocator().reset_peak();
    step(x, zeros({kRows}, DType::kI64));
    return cpu_allocator().stats().peak_bytes - before;
  };
  // Logits and their gradient, which is written over them, take most of the memory. Kept narrow,
  // they save at least three quarters of the bytes of bf16 logits; the rest may go into scratch.
  const nn::CrossEntropyLoss loss;
  const std::int64_t narrow = peak_of(loss, DType::kBf16);
  EXPECT_LT(narrow, peak_of(OfWidened{loss}, DType::kBf16) - kRows * kMany * 2 * 3 / 4);
  // CPUs that multiply bf16 no faster than f32 widen the gradient for its matrix products, which
  // takes back what narrow logits saved beside f32; their scratch may be a little larger.
  const std::int64_t full = peak_of(loss, DType::kF32);
  EXPECT_LT(narrow, has_fast_bf16() ? full * 3 / 4 : full * 21 / 20);
}

}  // namespace
}  // namespace mezzo::amp
