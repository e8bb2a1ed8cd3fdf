// Tests attention on a device: its memory, its dropout, recordings, and what hides keys.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/ops/attention_case.h"

namespace mezzo {
namespace {

using test::AttentionTensors;
using test::Doubles;
using Tensors = std::span<const Tensor>;

class CudaAttention : public OnCard<> {};

// The same leaves on the card.
AttentionTensors on_card(const AttentionTensors& x) {
  AttentionTensors there = x;
  for (Tensor* leaf : {&there.q, &there.k, &there.v}) {
    *leaf = leaf->detach().to(kCard).set_requires_grad(true);
  }
  there.grad = x.grad.to(kCard);
  return there;
}

// The result and the gradients, with dropout from a fixed position.
std::vector<Doubles> attention_results(const AttentionTensors& x, const AttentionOptions& options) {
  default_generator().set_position({9, 64});
  std::vector<Doubles> all;
  for (const Tensor& t : test::with_gradients(x, attention(x.q, x.k, x.v, options))) {
    all.push_back(t.to_vector<double>());
  }
  return all;
}

void expect_near(const std::vector<Doubles>& got, const std::vector<Doubles>& want, double most) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), want[i].size());
    for (std::size_t k = 0; k < got[i].size(); ++k) {
      EXPECT_NEAR(got[i][k], want[i][k], most) << "tensor " << i << ", element " << k;
    }
  }
}

// Peak of tensors beyond those that exist before, for a forward and a backward pass.
std::int64_t card_peak_of(std::int64_t positions) {
  const AttentionTensors x = on_card(AttentionTensors({1, 2, 2, positions, positions, 8, 8}));
  synchronize(kCard);
  const std::int64_t before = memory_stats(kCard).live_bytes;
  reset_peak_memory(kCard);
  const auto all = test::with_gradients(x, attention(x.q, x.k, x.v, {.causal = true}));
  synchronize(kCard);
  return memory_stats(kCard).peak_bytes - before;
}

TEST_F(CudaAttention, MemoryIsLinearInPositions) {
  const std::int64_t least = card_peak_of(256);
  EXPECT_LE(card_peak_of(512), 2 * least);
  EXPECT_LE(card_peak_of(1024), 4 * least);
  // One head's scores alone would take 4 MB.
  EXPECT_LT(4 * least, 1 << 20);
}

TEST_F(CudaAttention, IsThatOfTheCpu) {
  const AttentionTensors x({2, 4, 2, 66, 71, 16, 16});  // the tiles of keys are not whole
  for (const bool causal : {false, true}) {
    for (const double dropout : {0.0, 0.25}) {
      const AttentionOptions options{.causal = causal, .dropout = dropout};
      expect_near(attention_results(on_card(x), options), attention_results(x, options), 1e-4);
    }
  }
}

// A cache of keys: one query sees all of them.
TEST_F(CudaAttention, OfOneQueryIsThatOfTheLastOne) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const AttentionTensors x = on_card(AttentionTensors({1, 4, 2, 75, 75, 40, 24}, dtype));
    const Tensor all = attention(x.q, x.k, x.v, {.causal = true});
    const Tensor last = attention(slice(x.q, 2, 74, 75), x.k, x.v, {.causal = true});
    EXPECT_EQ(floats(last), floats(slice(all, 2, 74, 75))) << name_of(dtype);
  }
}

TEST_F(CudaAttention, AQueryThatSeesNothingGetsZeroAndAGradientOfZero) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const AttentionTensors x = on_card(AttentionTensors({1, 2, 1, 20, 33, 8, 8}, dtype));
    const Tensor seen = reshape(gt(arange(20), 16.0), {20, 1}).to(kCard);  // only 17 to 19 see keys
    for (const Tensor& mask :
         {seen, masked_fill(zeros({20, 1}), eq(seen.to(kCpuDevice), 0), -INFINITY).to(kCard)}) {
      for (const Tensor& t : test::with_gradients(x, attention(x.q, x.k, x.v, {.mask = mask}))) {
        for (const double value : t.to_vector<double>()) ASSERT_TRUE(std::isfinite(value));
        if (t.size(2) != 20) continue;  // of keys or values
        EXPECT_EQ(test::largest_of(slice(t, 2, 0, 17)), 0) << name_of(dtype);
        EXPECT_GT(test::largest_of(slice(t, 2, 17, 20)), 0) << name_of(dtype);
      }
    }
  }
}

// Too many features for the kernels: attention is composed of other operations.
TEST_F(CudaAttention, OfLargeHeadsIsThatOfTheCpu) {
  const AttentionTensors x({1, 2, 1, 5, 9, 260, 8});
  const AttentionOptions options{.causal = true, .dropout = 0.25};
  expect_near(attention_results(on_card(x), options), attention_results(x, options), 1e-4);
}

// [b, t, h, d] <-> [b, h, t, d].
Tensor swap_axes(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

// Operands as layers make them: a result in another order of axes would not be recorded.
TEST_F(CudaAttention, IsRecordedAndHasTheBitsOfEagerCalls) {
  const auto step = [](Tensors in) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : in) leaves.push_back(x.detach().set_requires_grad(true));
    const Tensor y = swap_axes(attention(swap_axes(leaves[0]), swap_axes(leaves[1]),
                                         swap_axes(leaves[2]), {.causal = true, .dropout = 0.3}));
    const Tensor loss = sum(y * y);
    std::vector<Tensor> all = grad({&loss, 1}, leaves);
    all.push_back(y.detach());
    return all;
  };
  graph::CompiledStep compiled = graph::compile(step);
  const Tensor inputs[] = {test::random_tensor({2, 70, 4, 16}, 1).to(kCard),
                           test::random_tensor({2, 70, 2, 16}, 2).to(kCard),
                           test::random_tensor({2, 70, 2, 16}, 3).to(kCard)};
  for (int i = 0; i < 6; ++i) {
    const RandomPosition before = default_generator().position();
    const std::vector<Tensor> replayed = compiled(inputs);
    default_generator().set_position(before);
    const std::vector<Tensor> eager = step(inputs);
    for (std::size_t k = 0; k < eager.size(); ++k) {
      EXPECT_EQ(floats(replayed[k]), floats(eager[k])) << "run " << i << ", result " << k;
    }
  }
  ASSERT_NE(compiled.latest()->replay(), nullptr);
  EXPECT_EQ(compiled.latest()->replay()->segments().size(), 1);
}

}  // namespace
}  // namespace mezzo
