// Compares attention, its layers and small transformers with PyTorch's results in f64, which
// make_transformers.py writes to transformers.json.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mezzo/autograd/engine.h"
#include "mezzo/models/gpt.h"
#include "mezzo/models/llama.h"
#include "mezzo/models/vit.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/nn/loss.h"
#include "mezzo/nn/multi_head_attention.h"
#include "mezzo/nn/transformer.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/adam.h"
#include "tests/golden/formula.h"

namespace mezzo::golden {
namespace {

using Json = nlohmann::json;
using nn::Tensors;

// Number streams and sizes of make_transformers.py.
constexpr std::uint32_t kInputs = 1U << 22;
constexpr std::uint32_t kWeights = 1U << 23;
constexpr std::uint32_t kProjections = 1U << 24;
constexpr std::int64_t kSize = 16;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kHidden = 24;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = 5;
constexpr std::int64_t kKeys = 7;
constexpr std::int64_t kVocabulary = 37;

// A bound on the relative error of what f32 computes here: every value is a sum of at most this
// many products, each rounded, on a path of at most this many layers.
constexpr double kTerms = 3 * kSize;
constexpr double kLayers = 12;
constexpr double kTolerance = kTerms * kLayers * std::numeric_limits<float>::epsilon() / 2;

Tensor units(std::uint32_t stream, const Shape& shape) {
  Tensor values = empty(shape);
  auto* value = values.mutable_data<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    value[i] = unit(stream, static_cast<std::uint32_t>(i));
  }
  return values;
}

Tensor numbers(std::uint32_t stream, const Shape& shape, std::int64_t count) {
  Tensor values = empty(shape, DType::kI64);
  auto* value = values.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    value[i] = hashed(stream, static_cast<std::uint32_t>(i)) % count;
  }
  return values;
}

Tensor mask_of(const Shape& shape,
               const std::function<bool(std::int64_t row, std::int64_t key)>& is_seen) {
  Tensor mask = empty(shape, DType::kBool);
  auto* value = static_cast<bool*>(mask.mutable_raw_data());
  for (std::int64_t i = 0; i < mask.numel(); ++i) value[i] = is_seen(i / shape[1], i % shape[1]);
  return mask;
}

// The masks of make_transformers.py, inverted.
Tensor key_mask(std::int64_t keys) {
  return mask_of({kBatch, keys}, [keys](std::int64_t example, std::int64_t key) {
    return key < keys - (example == 0 ? 1 : 3);
  });
}
Tensor pair_mask() {
  return mask_of({kTokens, kKeys},
                 [](std::int64_t query, std::int64_t key) { return (query + 2 * key) % 3 != 1; });
}

// Norm and projections, in f64.
std::vector<double> measured(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  std::vector<double> result(3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<std::uint32_t>(i);
    result[0] += values[i] * values[i];
    result[1] += values[i] * double{unit(kProjections, place)};
    result[2] += values[i] * double{unit(kProjections + 1, place)};
  }
  result[0] = std::sqrt(result[0]);
  return result;
}

// `scale`: the norm of what rounding errors are relative to. A projection multiplies them by at
// most the norm of the stream, whose numbers are below 1.
void expect_measured(const Tensor& tensor, const Json& expected, double scale,
                     const std::string& name) {
  ASSERT_TRUE(tensor.defined()) << name;
  const std::vector<double> found = measured(tensor);
  const double stream = std::sqrt(static_cast<double>(tensor.numel()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected.at(i).get<double>(), kTolerance * scale * (i > 0 ? stream : 1))
        << name << " " << i;
  }
}

// The tensors of the network's file, by PyTorch's names, filled by the order of these.
void fill_by_names(nn::Module& net, const Json& names) {
  std::vector<NamedTensor> tensors = models::to_weight_file(net);
  std::vector<NamedTensor> filled;
  const auto without_prefix = [](std::string name) {
    return name.starts_with("transformer.") ? name.substr(12) : name;
  };
  ASSERT_EQ(tensors.size(), names.size());
  for (std::uint32_t stream = 0; const Json& name : names) {
    const auto found = std::ranges::find(tensors, without_prefix(name), &NamedTensor::name);
    ASSERT_NE(found, tensors.end()) << name;
    const NamedTensor entry{name.get<std::string>(), empty(found->tensor.shape())};
    fill_entry(entry, stream++);
    filled.push_back(entry);
  }
  net.load_state(models::from_weight_file(net, filled));
}

// The gradients of parameters, in the layout of the network's file.
std::map<std::string, Tensor> gradients_of(const nn::Module& net) {
  std::vector<NamedTensor> tensors = net.named_parameters();
  for (NamedTensor& entry : tensors) entry.tensor = entry.tensor.grad();
  std::map<std::string, Tensor> result;
  const bool is_gpt = dynamic_cast<const models::Gpt*>(&net) != nullptr;
  for (NamedTensor& entry : tensors) {
    const bool is_transposed = is_gpt && entry.name.starts_with("h.") && entry.tensor.rank() == 2;
    result[entry.name] = is_transposed ? models::transposed_copy(entry.tensor) : entry.tensor;
    if (is_gpt) result["transformer." + entry.name] = result[entry.name];
  }
  return result;
}

void expect_gradients(std::map<std::string, Tensor> found, const Json& expected) {
  double largest = 0;
  for (const Json& gradient : expected) largest = std::max(largest, gradient.at(0).get<double>());
  for (const auto& [name, gradient] : expected.items()) {
    expect_measured(found[name], gradient, largest, name);
  }
}

class Transformers : public testing::Test {
 protected:
  const Json& golden(const std::string& name) const { return all_.at(name); }

  // A layer that is called with inputs [b, length, size].
  void expect_layer(const std::string& name, nn::Module& net, std::vector<std::int64_t> lengths,
                    const std::function<Tensor(const Tensors&)>& call) {
    SCOPED_TRACE(name);
    const Json& expected = golden(name);
    fill_by_names(net, expected.at("names"));
    Tensors inputs;
    for (std::uint32_t i = 0; i < lengths.size(); ++i) {
      inputs.push_back(units(kInputs + i, {kBatch, lengths[i], kSize}));
      inputs.back().set_requires_grad(true);
    }
    const Tensor output = call(inputs);
    expect_measured(output, expected.at("output"), expected.at("output").at(0), "output");
    sum(output * units(kWeights, output.shape())).backward();
    std::map<std::string, Tensor> gradients = gradients_of(net);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      gradients[concat("input ", i)] = inputs[i].grad();
    }
    expect_gradients(std::move(gradients), expected.at("gradients"));
  }

  // A network, and ten steps of AdamW. loss_of(step, output) gives loss and output of a batch.
  void expect_network(const std::string& name, nn::Module& net,
                      const std::function<Tensor(std::uint32_t step, Tensor& output)>& loss_of) {
    SCOPED_TRACE(name);
    const Json& expected = golden(name);
    fill_by_names(net, expected.at("names"));
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
    const auto steps = expected.at("steps").get<std::vector<double>>();
    for (std::uint32_t step = 0; step < steps.size(); ++step) {
      Tensor output;
      const Tensor loss = loss_of(step, output);
      // Adam divides gradients by their size: where one is nearly 0, its sign is rounding, and
      // moves the parameter by the learning rate all the same. That is why steps get more than the
      // first.
      EXPECT_NEAR(loss.item(), steps[step], (1 + step) * kTolerance * steps[step]) << step;
      optimizer.zero_grad();
      loss.backward();
      if (step == 0) {
        expect_measured(output, expected.at("output"), expected.at("output").at(0), "output");
        expect_gradients(gradients_of(net), expected.at("gradients"));
      }
      optimizer.step();
    }
  }

  void expect_language_model(const std::string& name, nn::Module& net) {
    expect_network(name, net, [&net](std::uint32_t step, Tensor& output) {
      const Tensor tokens = numbers(kInputs + step, {kBatch, kTokens + 1}, kVocabulary);
      output = net(slice(tokens, 1, 0, kTokens));
      return nn::NextTokenLoss()(output, slice(tokens, 1, 1, kTokens + 1));
    });
  }

 private:
  Json all_ = Json::parse(std::ifstream(std::string(MEZZO_GOLDEN_FOLDER) + "/transformers.json"));
};

TEST_F(Transformers, SelfAttention) {
  nn::MultiHeadAttention net(kSize, kHeads);
  expect_layer("attention of x", net, {kTokens}, [&](const Tensors& in) { return net(in[0]); });
  nn::MultiHeadAttention causal(kSize, kHeads, {.causal = true});
  expect_layer("attention of x, causal", causal, {kTokens},
               [&](const Tensors& in) { return causal(in[0]); });
}

TEST_F(Transformers, CrossAttention) {
  nn::MultiHeadAttention one(kSize, kHeads);
  expect_layer("attention to another", one, {kTokens, kKeys}, [&](const Tensors& in) {
    return one(Tensors{in[0], in[1], in[1], key_mask(kKeys)}).front();
  });
  nn::MultiHeadAttention two(kSize, kHeads);
  expect_layer("attention to two others", two, {kTokens, kKeys, kKeys}, [&](const Tensors& in) {
    return two(Tensors{in[0], in[1], in[2], key_mask(kKeys), pair_mask()}).front();
  });
}

TEST_F(Transformers, EncoderLayer) {
  nn::TransformerEncoderLayer last(kSize, kHeads, {.feedforward = kHidden, .dropout = 0});
  expect_layer("encoder layer", last, {kTokens}, [&](const Tensors& in) {
    return last(Tensors{in[0], key_mask(kTokens)}).front();
  });
  nn::TransformerEncoderLayer first(kSize, kHeads,
                                    {.feedforward = kHidden,
                                     .dropout = 0,
                                     .activation = nn::FeedForwardActivation::kGelu,
                                     .norm_first = true,
                                     .causal = true});
  expect_layer("encoder layer, norm first", first, {kTokens},
               [&](const Tensors& in) { return first(in[0]); });
}

TEST_F(Transformers, DecoderLayer) {
  nn::TransformerLayerOptions options{.feedforward = kHidden, .dropout = 0, .causal = true};
  nn::TransformerDecoderLayer last(kSize, kHeads, options);
  expect_layer("decoder layer", last, {kTokens, kKeys}, [&](const Tensors& in) {
    return last(Tensors{in[0], in[1], {}, {}, key_mask(kKeys)}).front();
  });
  options.norm_first = true;
  nn::TransformerDecoderLayer first(kSize, kHeads, options);
  expect_layer("decoder layer, norm first", first, {kTokens, kKeys}, [&](const Tensors& in) {
    return first(Tensors{in[0], in[1], {}, {}, {}, pair_mask()}).front();
  });
}

TEST_F(Transformers, Gpt) {
  models::Gpt net({.vocabulary = kVocabulary,
                   .positions = 8,
                   .layers = 2,
                   .heads = kHeads,
                   .width = kSize,
                   .dropout = 0});
  expect_language_model("gpt", net);
}

TEST_F(Transformers, Llama) {
  models::Llama net({.vocabulary = kVocabulary,
                     .layers = 2,
                     .heads = 4,
                     .key_heads = 2,
                     .width = kSize,
                     .hidden = kHidden});
  expect_language_model("llama", net);
}

TEST_F(Transformers, Vit) {
  models::Vit net({.in_channels = 3, .num_classes = 10, .image_size = 16},
                  {.patch = 8, .layers = 2, .heads = kHeads, .width = kSize, .hidden = kHidden});
  expect_network("vit", net, [&net](std::uint32_t step, Tensor& output) {
    const Batch batch = make_batch(step, {kBatch, 3, 16, 16}, 10);
    output = net(batch.images);
    return nn::CrossEntropyLoss()(output, batch.labels);
  });
}

}  // namespace
}  // namespace mezzo::golden
