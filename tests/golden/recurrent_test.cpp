// Compares LSTM and GRU with PyTorch's results and gradients for the same weights.
// make_recurrent.py writes recurrent.json.
#include "mezzo/nn/recurrent.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/golden/formula.h"

namespace mezzo::golden {
namespace {

using Json = nlohmann::json;

Tensor recurrent_values(std::uint32_t number, const Shape& shape) {
  Tensor result = empty(shape);
  auto* value = result.mutable_data<float>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    value[i] = unit(kImages + number, static_cast<std::uint32_t>(i));
  }
  return result;
}

// Both are f32 sums of the same terms in different orders, at most 5 steps of 12 terms deep, whose
// values are of order 1, and up to 10.
void expect_near(const Tensor& got, const Json& expected, const std::string& name) {
  const auto values = got.to_vector<double>();
  const auto want = expected.get<std::vector<double>>();
  ASSERT_EQ(values.size(), want.size()) << name;
  double size = 1;
  for (const double value : want) size = std::max(size, std::abs(value));
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(values[i], want[i], size * 5 * 12 * 0x1p-23) << name << " element " << i;
  }
}

struct Given {
  Json golden;
  nn::Tensors inputs;  // x, lengths, states
};

Given given(const char* kind) {
  const Json all = Json::parse(std::ifstream(std::string(MEZZO_GOLDEN_FOLDER) + "/recurrent.json"));
  const auto number = [&](const char* key) { return all.at(key).get<std::int64_t>(); };
  const auto lengths = all.at("lengths").get<std::vector<std::int64_t>>();
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const Shape state{2 * number("layers"), batch, number("hidden")};
  return {all.at(kind),
          {recurrent_values(0, {batch, number("steps"), number("features")}),
           from_values<std::int64_t>(lengths, {batch}), recurrent_values(1, state),
           recurrent_values(2, state)}};
}

void check(nn::Recurrent& net, const Given& given, const nn::Tensors& inputs,
           const std::vector<const char*>& names) {
  fill(net);
  for (const Tensor& input : inputs) {
    if (is_floating(input.dtype())) Tensor(input).set_requires_grad(true);
  }
  const nn::Tensors results = net(inputs);
  Tensor total;
  for (std::size_t i = 0; i < results.size(); ++i) {
    expect_near(results[i], given.golden.at("results").at(i), "result " + std::to_string(i));
    const auto number = static_cast<std::uint32_t>(10 + i);
    const Tensor part = sum(results[i] * recurrent_values(number, results[i].shape()));
    total = total.defined() ? total + part : part;
  }
  total.backward();
  const Json& gradients = given.golden.at("gradients");
  std::size_t named = 0;
  for (const Tensor& input : inputs) {
    if (!is_floating(input.dtype())) continue;
    expect_near(input.grad(), gradients.at(names[named]), names[named]);
    ++named;
  }
  for (const NamedTensor& entry : net.named_parameters()) {
    expect_near(entry.tensor.grad(), gradients.at(entry.name), entry.name);
  }
  EXPECT_EQ(gradients.size(), net.named_parameters().size() + names.size());
}

TEST(GoldenRecurrent, Lstm) {
  const Given data = given("lstm");
  nn::Lstm net(3, 6, {.layers = 2, .bidirectional = true});
  check(net, data, data.inputs, {"x", "h0", "c0"});
}

TEST(GoldenRecurrent, Gru) {
  const Given data = given("gru");
  nn::Gru net(3, 6, {.layers = 2, .bidirectional = true});
  check(net, data, {data.inputs[0], data.inputs[1], data.inputs[2]}, {"x", "h0"});
}

}  // namespace
}  // namespace mezzo::golden
