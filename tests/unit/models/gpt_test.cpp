// Tests language models: names, counts, initial values, files and errors.
// tests/golden/transformers_test.cpp compares their numbers with PyTorch's.
#include "mezzo/models/gpt.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/models/llama.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/inference.h"
#include "mezzo/nn/loss.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo::models {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

GptOptions small_gpt() {
  return {.vocabulary = 11, .positions = 8, .layers = 2, .heads = 2, .width = 8};
}

LlamaOptions small_llama() {
  return {.vocabulary = 11, .layers = 2, .heads = 2, .key_heads = 1, .width = 8, .hidden = 12};
}

Tensor some_tokens(std::int64_t n, std::int64_t t) {
  Tensor tokens = empty({n, t}, DType::kI64);
  auto* token = tokens.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < n * t; ++i) token[i] = i * i % 11;
  return tokens;
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : tensors) names.push_back(entry.name);
  return names;
}

double deviation(const Tensor& tensor) {
  double squares = 0;
  for (const double x : tensor.to_vector<double>()) squares += x * x;
  return std::sqrt(squares / static_cast<double>(tensor.numel()));
}

const Tensor& named(const std::vector<NamedTensor>& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &NamedTensor::name)->tensor;
}

std::vector<float> logits_of(nn::Module& net) {
  const nn::Inference inference(net);
  return net(some_tokens(2, 5)).to_vector<float>();
}

TEST(Gpt, HasHuggingFacesNames) {
  GptOptions options = small_gpt();
  options.layers = 1;
  EXPECT_THAT(
      names_of(Gpt(options).state()),
      ElementsAre("wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias",
                  "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight",
                  "h.0.attn.c_proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias", "h.0.mlp.c_fc.weight",
                  "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight", "h.0.mlp.c_proj.bias",
                  "ln_f.weight", "ln_f.bias", "lm_head.weight"));
}

TEST(Gpt, HasTheUsualInitialValues) {
  manual_seed(1);
  const Gpt net({.vocabulary = 500, .positions = 64, .layers = 3, .heads = 4, .width = 128});
  const auto state = net.state();
  EXPECT_NEAR(deviation(named(state, "wte.weight")), 0.02, 0.001);
  EXPECT_NEAR(deviation(named(state, "wpe.weight")), 0.02, 0.001);
  EXPECT_NEAR(deviation(named(state, "h.1.attn.c_attn.weight")), 0.02, 0.001);
  for (const char* name : {"h.1.attn.c_proj.weight", "h.2.mlp.c_proj.weight"}) {
    EXPECT_NEAR(deviation(named(state, name)), 0.02 / std::sqrt(6), 0.0005) << name;
  }
  EXPECT_EQ(deviation(named(state, "h.1.mlp.c_fc.bias")), 0);
}

// The head is the table, and its gradient the sum over both uses.
TEST(Gpt, HeadIsTheTableOfTokens) {
  const Gpt net(small_gpt());
  const auto state = net.state();
  EXPECT_EQ(named(state, "lm_head.weight").impl(), named(state, "wte.weight").impl());
  EXPECT_EQ(net.parameters().size(), state.size() - 1);
}

TEST(Gpt, TokensSeeEarlierOnesOnly) {
  manual_seed(2);
  Gpt net(small_gpt());
  const nn::Inference inference(net);
  const Tensor tokens = some_tokens(1, 6);
  const Tensor shorter = slice(tokens, 1, 0, 4);
  const Tensor expected = slice(net(tokens), 1, 0, 4);
  const std::vector<double> all = expected.to_vector<double>();
  const std::vector<double> some = net(shorter).to_vector<double>();
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(all[i], some[i], 1e-6);
}

// Files have matrices as [in, out], no head, and may have a prefix and masks.
TEST(Gpt, ReadsFilesOfHuggingFace) {
  manual_seed(3);
  Gpt net(small_gpt());
  const std::vector<NamedTensor> file = net.to_file();
  EXPECT_EQ(named(file, "h.0.attn.c_attn.weight").shape(), (Shape{8, 24}));
  EXPECT_EQ(named(file, "h.1.mlp.c_proj.weight").shape(), (Shape{32, 8}));
  EXPECT_THAT(names_of(file), Not(Contains("lm_head.weight")));
  for (const char* prefix : {"", "transformer."}) {
    std::vector<NamedTensor> given = file;
    for (NamedTensor& entry : given) entry.name = prefix + entry.name;
    given.push_back({concat(prefix, "h.0.attn.bias"), ones({1, 1, 8, 8})});
    given.push_back({concat(prefix, "h.1.attn.masked_bias"), zeros({})});
    given.push_back({"lm_head.weight", named(file, "wte.weight")});
    Gpt other(small_gpt());
    EXPECT_NE(logits_of(other), logits_of(net));
    other.load_state(other.from_file(given));
    EXPECT_EQ(logits_of(other), logits_of(net)) << prefix;
  }
}

TEST(Gpt, ReadsItsStateAndRefusesOtherNames) {
  manual_seed(4);
  Gpt net(small_gpt());
  Gpt other(small_gpt());
  other.load_state(other.from_file(net.state()));
  EXPECT_EQ(logits_of(other), logits_of(net));
  std::vector<NamedTensor> file = net.to_file();
  file.push_back({"h.0.attn.c_more.weight", ones({2})});
  EXPECT_THAT(message_of([&] { other.load_state(other.from_file(file)); }),
              HasSubstr("unexpected: h.0.attn.c_more.weight"));
  file.resize(file.size() - 2);
  EXPECT_THAT(message_of([&] { other.load_state(other.from_file(file)); }),
              HasSubstr("missing: ln_f.bias"));
  // A file as it is does not fit by accident, though some matrices are square.
  EXPECT_THROW(other.load_state(net.to_file()), ArgumentError);
}

TEST(Gpt, ErrorsSayWhatIsPossible) {
  EXPECT_THAT(message_of([] { Gpt({.heads = 5, .width = 8}); }), HasSubstr("a width of 8"));
  EXPECT_THAT(message_of([] { Gpt({.layers = 0}); }), HasSubstr("must be positive"));
  Gpt net(small_gpt());
  EXPECT_THAT(message_of([&] { net(some_tokens(1, 9)); }), HasSubstr("only 8 positions"));
  EXPECT_THAT(message_of([&] { net(zeros({3}, DType::kI64)); }), HasSubstr("[3]"));
}

// At O2 the logits come from 16-bit products, but the stream stays f32.
TEST(LanguageModels, KeepTheStreamInF32) {
  for (const bool is_gpt : {true, false}) {
    const std::unique_ptr<nn::Module> net =
        is_gpt ? std::unique_ptr<nn::Module>(std::make_unique<Gpt>(small_gpt()))
               : std::make_unique<Llama>(small_llama());
    nn::Module& block = *net->find(is_gpt ? "h.0" : "model.layers.0");
    DType stream = DType::kBf16;
    struct Look final : nn::ForwardHook {
      explicit Look(DType& seen) : dtype(seen) {}
      nn::Tensors around(nn::Module& /*module*/, const nn::Tensors& inputs,
                         const Forward& forward) override {
        nn::Tensors results = forward(inputs);
        dtype = results[0].dtype();
        return results;
      }
      DType& dtype;
    };
    block.add_forward_hook(std::make_shared<Look>(stream));
    const amp::Autocast region({.level = amp::Level::kO2, .lower = DType::kBf16});
    EXPECT_EQ((*net)(some_tokens(2, 4)).dtype(), DType::kBf16);
    EXPECT_EQ(stream, DType::kF32) << is_gpt;
  }
}

TEST(LanguageModels, AreCreatedByName) {
  manual_seed(5);
  const ModelConfig usual = usual_config("gpt-tiny");
  EXPECT_TRUE(usual.is_for_tokens());
  EXPECT_FALSE(usual_config("vit_b_16").is_for_tokens());
  EXPECT_EQ(usual.tokens, 256);
  const auto net = create("gpt-tiny", {.tokens = 1500, .vocabulary = 20});
  EXPECT_EQ(named(net->state(), "wpe.weight").shape(), (Shape{1500, 384}));
  EXPECT_EQ(named(net->state(), "wte.weight").shape(), (Shape{20, 384}));
  EXPECT_EQ(named(create("gpt-tiny")->state(), "wpe.weight").shape(), (Shape{1024, 384}));
  EXPECT_THROW(create("gpt-tiny", {.tokens = -1}), ArgumentError);
}

TEST(NextTokenLoss, IsTheMeanOverAllTokens) {
  manual_seed(6);
  const Tensor logits = randn({2, 3, 5});
  const Tensor labels = from_values<std::int64_t>({1, 2, 3, 4, 0, 1}, {2, 3});
  const nn::NextTokenLoss loss;
  EXPECT_EQ(loss(logits, labels).item(),
            cross_entropy(reshape(logits, {6, 5}), reshape(labels, {6})).item());
  const nn::NextTokenLoss ignoring({.ignore_index = 4});
  EXPECT_EQ(ignoring.count(labels).item(), 5);
  EXPECT_FLOAT_EQ(static_cast<float>(ignoring.sum(logits, labels).item() / 5),
                  static_cast<float>(ignoring(logits, labels).item()));
}

TEST(Llama, HasHuggingFacesNames) {
  LlamaOptions options = small_llama();
  options.layers = 1;
  EXPECT_THAT(
      names_of(Llama(options).state()),
      ElementsAre(
          "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
          "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight",
          "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.gate_proj.weight",
          "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
          "model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight",
          "model.norm.weight", "lm_head.weight"));
}

TEST(Llama, ReadsFilesWithAndWithoutPrefix) {
  manual_seed(7);
  for (const bool tied : {false, true}) {
    LlamaOptions options = small_llama();
    options.tied = tied;
    Llama net(options);
    std::vector<NamedTensor> file = net.to_file();
    EXPECT_EQ(std::ranges::count(file, "lm_head.weight", &NamedTensor::name), tied ? 0 : 1);
    file.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", ones({2})});
    for (const bool has_prefix : {true, false}) {
      std::vector<NamedTensor> given = file;
      if (!has_prefix) remove_prefix(given, "model.");
      Llama other(options);
      other.load_state(other.from_file(given));
      EXPECT_EQ(logits_of(other), logits_of(net));
    }
  }
}

TEST(Llama, ErrorsSayWhatIsPossible) {
  EXPECT_THAT(message_of([] { Llama({.heads = 4, .width = 20}); }), HasSubstr("even number"));
  EXPECT_THAT(message_of([] { Llama({.heads = 12, .key_heads = 5}); }),
              HasSubstr("12 heads cannot share 5"));
}

}  // namespace
}  // namespace mezzo::models
