// Tests recurrent layers on a device: the CPU's results, recordings, and wrong lengths.
#include "mezzo/nn/recurrent.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/graph/compile.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/recurrent.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/message_of.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using Tensors = std::span<const Tensor>;

class CudaRecurrent : public OnCard<> {};

// The results of a layer of two directions, and the gradients of its input and parameters.
template <class Layer>
std::vector<std::vector<float>> recurrent_results(Layer& layer, Device device) {
  layer.to(device);
  const Tensor x = test::random_tensor({3, 5, 7}, 3).to(device).set_requires_grad(true);
  const Tensor lengths = from_values(std::vector<std::int64_t>{5, 2, 0}, {3}).to(device);
  const nn::Tensors results = layer({x, lengths});
  const Tensor loss = sum(results[0] * results[0]) + sum(results[1]);
  std::vector<Tensor> leaves = layer.parameters();
  leaves.push_back(x);
  std::vector<std::vector<float>> all;
  for (const Tensor& result : results) all.push_back(floats(result));
  for (const Tensor& t : grad({&loss, 1}, leaves)) all.push_back(floats(t));
  return all;
}

template <class Layer>
void expect_layer_of_the_cpu() {
  manual_seed(4);
  Layer layer(7, 9, {.layers = 2, .bidirectional = true});
  const auto want = recurrent_results(layer, kCpuDevice);
  const auto got = recurrent_results(layer, kCard);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), want[i].size());
    for (std::size_t k = 0; k < got[i].size(); ++k) EXPECT_NEAR(got[i][k], want[i][k], 1e-5) << i;
  }
}

TEST_F(CudaRecurrent, LayersHaveTheResultsOfTheCpu) {
  expect_layer_of_the_cpu<nn::Lstm>();
  expect_layer_of_the_cpu<nn::Gru>();
}

template <class Layer>
void expect_bits_of_eager_layers() {
  manual_seed(4);
  Layer layer(7, 9);
  layer.to(kCard);
  const Tensor x = test::random_tensor({3, 5, 7}, 3).to(kCard);
  const auto step = [&](Tensors in) {
    const Tensor leaf = in[0].detach().set_requires_grad(true);
    const Tensor y = layer(leaf);
    const Tensor loss = sum(y * y);
    return grad({&loss, 1}, {&leaf, 1});
  };
  graph::CompiledStep compiled = graph::compile(step);
  const std::vector<float> eager = floats(step({&x, 1})[0]);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(floats(compiled({&x, 1})[0]), eager) << "run " << i;
  ASSERT_NE(compiled.latest()->replay(), nullptr);
  EXPECT_EQ(compiled.latest()->replay()->segments().size(), 1);
}

TEST_F(CudaRecurrent, LayersAreRecordedAndHaveTheBitsOfEagerCalls) {
  expect_bits_of_eager_layers<nn::Lstm>();
  expect_bits_of_eager_layers<nn::Gru>();
}

TEST_F(CudaRecurrent, AWrongLengthIsReportedByTheNextCallThatWaits) {
  const Tensor gates = test::random_tensor({2, 3, 8}, 1).to(kCard);
  const Tensor weight = test::random_tensor({8, 2}, 2).to(kCard);
  const Tensor lengths = from_values(std::vector<std::int64_t>{3, 4}, {2}).to(kCard);
  EXPECT_THAT(message_of<ArgumentError>([&] {
                lstm(gates, {weight, {}}, {.lengths = lengths}).sequence.to_vector<float>();
              }),
              testing::HasSubstr("length 4 of sequence 1 is outside [0, 3]"));
}

}  // namespace
}  // namespace mezzo
