// Compares batch-norm results that are recomputed with the same results when they are kept.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/node.h"
#include "mezzo/ops/fusion/pending_norm.h"

namespace mezzo::test {

// Disables a kernel, or a choice, while it exists.
class Without {
 public:
  explicit Without(std::string kernel) { disable_kernels({std::move(kernel)}); }
  ~Without() { disable_kernels({}); }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;
};

using Bits = std::vector<std::uint32_t>;

// The elements as f32, which is exact for 16 bits. All NaNs are equal, since their bits depend on
// the order of operands.
inline Bits bits_of(const Tensor& tensor) {
  Bits bits;
  if (!tensor.defined()) return bits;
  for (const float value : tensor.to_vector<float>()) {
    bits.push_back(std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

inline std::vector<Bits> bits_of(const std::vector<Tensor>& tensors) {
  std::vector<Bits> bits;
  for (const Tensor& tensor : tensors) bits.push_back(bits_of(tensor));
  return bits;
}

inline std::vector<Bits> grads_of(const std::vector<Tensor>& leaves) {
  std::vector<Bits> bits;
  for (const Tensor& leaf : leaves) bits.push_back(bits_of(leaf.grad()));
  return bits;
}

// Expects that run(), which returns the bits of several tensors, gives the same if results are
// kept.
template <class Run>
void expect_as_kept(const Run& run, const std::string& what = "") {
  const std::vector<Bits> again = run();
  const Without guard("cpu_norm_recompute");
  const std::vector<Bits> kept = run();
  ASSERT_EQ(again.size(), kept.size()) << what;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(again[i] == kept[i]) << what << ": result " << i;
  }
}

// Whether the operation of `result` will recompute its first input and has not done so yet.
inline bool is_given_up(const Tensor& result) {
  return pending_norm_of(node_of(result)->inputs()[0].saved) != nullptr;
}

// Operations that recompute their inputs need AVX2.
class NormAgainTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!has_vectors()) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  }
};

}  // namespace mezzo::test
