// Lstm and Gru: names, shapes, lengths and states. tests/golden compares them with PyTorch's.
#include "mezzo/nn/recurrent.h"

#include <cmath>

#include <gmock/gmock.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using testing::HasSubstr;

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

std::vector<std::string> names_of(const Module& net) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : net.named_parameters()) {
    names.push_back(concat(entry.name, " ", entry.tensor.shape()));
  }
  return names;
}

TEST(Lstm, HasPyTorchsNames) {
  const Lstm net(3, 5, {.layers = 2, .bidirectional = true});
  EXPECT_THAT(
      names_of(net),
      testing::ElementsAre(
          "weight_ih_l0 [20, 3]", "weight_hh_l0 [20, 5]", "bias_ih_l0 [20]", "bias_hh_l0 [20]",
          "weight_ih_l0_reverse [20, 3]", "weight_hh_l0_reverse [20, 5]", "bias_ih_l0_reverse [20]",
          "bias_hh_l0_reverse [20]", "weight_ih_l1 [20, 10]", "weight_hh_l1 [20, 5]",
          "bias_ih_l1 [20]", "bias_hh_l1 [20]", "weight_ih_l1_reverse [20, 10]",
          "weight_hh_l1_reverse [20, 5]", "bias_ih_l1_reverse [20]", "bias_hh_l1_reverse [20]"));
}

TEST(Gru, MayHaveNoBias) {
  Gru net(3, 5, {.bias = false});
  EXPECT_THAT(names_of(net), testing::ElementsAre("weight_ih_l0 [15, 3]", "weight_hh_l0 [15, 5]"));
  EXPECT_EQ(net(randn({2, 4, 3})).shape(), (Shape{2, 4, 5}));
}

TEST(Lstm, BeginsWithinPyTorchsBounds) {
  const Lstm net(3, 16);
  for (const NamedTensor& entry : net.named_parameters()) {
    double largest = 0;
    for (const double value : values(entry.tensor)) largest = std::max(largest, std::abs(value));
    EXPECT_LE(largest, 0.25) << entry.name;
    EXPECT_GT(largest, 0.2) << entry.name;
  }
}

TEST(Lstm, GivesSequenceAndStates) {
  manual_seed(1);
  Lstm net(3, 5, {.layers = 2, .bidirectional = true});
  const Tensor x = randn({4, 6, 3});
  const Tensors results = net(Tensors{x});
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].shape(), (Shape{4, 6, 10}));
  EXPECT_EQ(results[1].shape(), (Shape{4, 4, 5}));
  EXPECT_EQ(results[2].shape(), (Shape{4, 4, 5}));
  EXPECT_EQ(values(net(x)), values(results[0]));
  // The last layer's states: after the last step, and after the first in the other direction.
  const auto state = [&](std::int64_t i) { return values(slice(results[1], 0, i, i + 1)); };
  const auto step = [&](std::int64_t t, std::int64_t c) {
    return values(slice(slice(results[0], 1, t, t + 1), 2, c, c + 5));
  };
  EXPECT_EQ(state(2), step(5, 0));
  EXPECT_EQ(state(3), step(0, 5));
}

// How far results may differ if the product with x adds up in another order, as it may for another
// number of rows. In each of two orders a sum is wrong by its number of terms times 2^-24 of their
// absolute values' sum, which is below 12. A step passes an error of the state on about once.
double allowed_difference(const Recurrent& net, std::int64_t steps) {
  const RecurrentLayers& options = net.options();
  const std::int64_t terms = std::max(net.in_features(), net.directions() * net.hidden_size()) + 1;
  return 2.0 * 12 * 0x1p-24 * static_cast<double>(options.layers * steps * terms);
}

void expect_near(const Tensor& got, const Tensor& want, double allowed) {
  EXPECT_THAT(values(got), testing::Pointwise(testing::DoubleNear(allowed), values(want)));
}

// Reading a sequence in two parts, with the state of the first for the second.
template <class Layer>
void expect_same_in_parts(Layer& net, bool has_cell) {
  const Tensor x = randn({3, 7, 4});
  const Tensors all = net(Tensors{x});
  const Tensors first = net(Tensors{slice(x, 1, 0, 3)});
  Tensors inputs{slice(x, 1, 3, 7), Tensor(), first[1]};
  if (has_cell) inputs.push_back(first[2]);
  const Tensors second = net(inputs);
  const double allowed = allowed_difference(net, 7);
  expect_near(cat({first[0], second[0]}, 1), all[0], allowed);
  for (std::size_t i = 1; i < all.size(); ++i) expect_near(second[i], all[i], allowed);
}

TEST(Lstm, GoesOnFromStates) {
  manual_seed(2);
  Lstm net(4, 6, {.layers = 2});
  expect_same_in_parts(net, true);
}

TEST(Gru, GoesOnFromStates) {
  manual_seed(2);
  Gru net(4, 6, {.layers = 2});
  expect_same_in_parts(net, false);
}

TEST(Lstm, ASequenceHasTheValuesThatItHasAlone) {
  manual_seed(3);
  Lstm net(4, 24, {.layers = 2, .bidirectional = true});
  const Tensor x = randn({3, 7, 4});
  const std::vector<std::int64_t> lengths{7, 2, 5};
  const Tensors all = net({x, from_values<std::int64_t>(lengths, {3})});
  const double allowed = allowed_difference(net, 7);
  for (std::int64_t n = 0; n < 3; ++n) {
    SCOPED_TRACE(n);
    const std::int64_t length = lengths[static_cast<std::size_t>(n)];
    const Tensors one = net(Tensors{copy_of(slice(slice(x, 0, n, n + 1), 1, 0, length))});
    const Tensor row = slice(all[0], 0, n, n + 1);
    expect_near(slice(row, 1, 0, length), one[0], allowed);
    EXPECT_THAT(values(slice(row, 1, length, 7)), testing::Each(0.0));
    expect_near(slice(all[1], 1, n, n + 1), one[1], allowed);
    expect_near(slice(all[2], 1, n, n + 1), one[2], allowed);
  }
}

// Nothing of the first layer reaches the second one, and the second one's results stay.
TEST(Gru, DropsBetweenLayersInTraining) {
  manual_seed(4);
  Gru net(4, 6, {.layers = 2, .dropout = 1});
  const Tensor x = randn({2, 3, 4});
  const Tensor other = randn({2, 3, 4});
  EXPECT_EQ(values(net(x)), values(net(other)));
  EXPECT_NE(values(net(x)), std::vector<double>(36, 0.0));
  net.eval();
  EXPECT_NE(values(net(x)), values(net(other)));
}

TEST(Lstm, SaysWhatIsWrong) {
  Lstm net(4, 6, {.layers = 2});
  const auto message = [](const auto& body) { return message_of<ArgumentError>(body); };
  EXPECT_THAT(message([&] {
                net(randn({2, 3}));
              }),
              HasSubstr("[Lstm] x must have the shape [b, t, 4], it has [2, 3]. "));
  EXPECT_THAT(message([&] {
                net({randn({2, 3, 4}), Tensor(), randn({1, 2, 6})});
              }),
              HasSubstr("[Lstm] initial states must have the shape [2, 2, 6], not [1, 2, 6]. "));
  EXPECT_THAT(message([&] {
                net({randn({2, 3, 4}), from_values<std::int64_t>({4, 1}, {2})});
              }),
              HasSubstr("[lstm] length 4 of sequence 0 is outside [0, 3]. "));
  EXPECT_THAT(message([&] {
                net(Tensors(5, randn({2, 3, 4})));
              }),
              HasSubstr("[Lstm] there are 5 inputs. "));
  EXPECT_THAT(message([] { Lstm(4, 0); }), HasSubstr("[Lstm] sizes must be positive: from 4 to 0"));
  EXPECT_THAT(message([] { Gru(4, 2, {.dropout = 2}); }), HasSubstr("[Gru] the probability"));
}

}  // namespace
}  // namespace mezzo::nn
