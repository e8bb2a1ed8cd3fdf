// Tests generation: the cache of keys and values, the choice of tokens, and the loop over them.
#include "mezzo/models/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/models/gpt.h"
#include "mezzo/models/llama.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;
using testing::SizeIs;

constexpr std::int64_t kVocabulary = 13;

GptOptions generating_gpt(std::int64_t positions = 16) {
  return {.vocabulary = kVocabulary, .positions = positions, .layers = 2, .heads = 2, .width = 8};
}
LlamaOptions generating_llama() {
  return {.vocabulary = kVocabulary,
          .layers = 2,
          .heads = 4,
          .key_heads = 2,
          .width = 16,
          .hidden = 12};
}

Tensor tokens_for(std::int64_t n, std::int64_t t) {
  Tensor tokens = empty({n, t}, DType::kI64);
  auto* token = tokens.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < n * t; ++i) token[i] = (i * i + 3 * i) % kVocabulary;
  return tokens;
}

// The logits after each prefix, with a cache that is fed in the given portions, against the forward
// pass over all tokens. `tolerance`: of sums of at most 64 products of numbers near 1, in 12
// layers.
template <class Net>
void expect_cached_logits(Net& net, const std::vector<std::int64_t>& portions, double tolerance) {
  const nn::Inference inference(net);
  std::int64_t length = 0;
  for (const std::int64_t portion : portions) length += portion;
  const Tensor tokens = tokens_for(2, length);
  const std::vector<double> all = net(tokens).template to_vector<double>();
  KeyValueCache cache;
  std::int64_t read = 0;
  for (const std::int64_t portion : portions) {
    const Tensor logits = net.next_logits(slice(tokens, 1, read, read + portion), cache);
    read += portion;
    EXPECT_EQ(cache.length(), read);
    ASSERT_EQ(logits.shape(), (Shape{2, kVocabulary}));
    const std::vector<double> next = logits.template to_vector<double>();
    for (std::int64_t i = 0; i < 2 * kVocabulary; ++i) {
      const std::int64_t row = i / kVocabulary * length + read - 1;
      EXPECT_NEAR(next[i], all[row * kVocabulary + i % kVocabulary], tolerance) << read << " " << i;
    }
  }
}

constexpr double kF32Tolerance = 12 * 64 * std::numeric_limits<float>::epsilon();
// 2^-8 is half of bf16's unit at 1.
constexpr double kBf16Tolerance = 12.0 / 256;

TEST(KeyValueCache, GivesTheLogitsOfAllTokens) {
  manual_seed(1);
  Gpt gpt(generating_gpt());
  Llama llama(generating_llama());
  for (const std::vector<std::int64_t>& portions :
       {std::vector<std::int64_t>{1, 1, 1, 1, 1}, {5, 1, 1}, {3, 4, 2}}) {
    expect_cached_logits(gpt, portions, kF32Tolerance);
    expect_cached_logits(llama, portions, kF32Tolerance);
  }
}

// Sequences of one, four and six tokens, in three portions with padding, each against the forward
// pass over the sequence alone.
template <class Net>
void expect_logits_of_rows_alone(Net& net, double tolerance) {
  const nn::Inference inference(net);
  const std::vector<std::vector<std::int64_t>> portions = {{1, 2, 4}, {1, 3, 1}, {2, 1, 1}};
  std::vector<std::vector<std::int64_t>> texts(3);
  KeyValueCache cache;
  std::int64_t token = 0;
  for (const std::vector<std::int64_t>& counts : portions) {
    const std::int64_t width = *std::ranges::max_element(counts);
    std::vector<std::int64_t> rectangle;
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        rectangle.push_back((token = (token * token + 5) % kVocabulary));
        if (i < counts[row]) texts[row].push_back(token);
      }
    }
    const Tensor logits = net.next_logits(from_values(rectangle, {3, width}), cache, counts);
    ASSERT_EQ(logits.shape(), (Shape{3, kVocabulary}));
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::vector<std::int64_t>& text = texts[static_cast<std::size_t>(row)];
      const auto length = static_cast<std::int64_t>(text.size());
      const Tensor alone = slice(net(from_values(text, {1, length})), 1, length - 1, length);
      const std::vector<double> expected = alone.template to_vector<double>();
      const std::vector<double> found = slice(logits, 0, row, row + 1).template to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], tolerance) << row << " " << length << " " << i;
      }
    }
  }
}

TEST(KeyValueCache, HidesPadding) {
  manual_seed(2);
  Gpt gpt(generating_gpt());
  Llama llama(generating_llama());
  expect_logits_of_rows_alone(gpt, kF32Tolerance);
  expect_logits_of_rows_alone(llama, kF32Tolerance);
  const amp::Autocast region(DType::kBf16);
  expect_logits_of_rows_alone(gpt, kBf16Tolerance);
  expect_logits_of_rows_alone(llama, kBf16Tolerance);
}

TEST(KeyValueCache, SaysWhichCountsDoNotFit) {
  Gpt net(generating_gpt());
  const nn::Inference inference(net);
  KeyValueCache cache;
  const auto message = [&](const std::vector<std::int64_t>& counts) {
    return message_of([&] { net.next_logits(tokens_for(2, 3), cache, counts); });
  };
  EXPECT_THAT(message({1}), HasSubstr("there are 1 counts for the 2 sequences"));
  EXPECT_THAT(message({0, 3}), HasSubstr("a sequence has 0 of 3 tokens"));
  EXPECT_THAT(message({3, 4}), HasSubstr("a sequence has 4 of 3 tokens"));
  EXPECT_EQ(cache.length(), 0);
  (void)net.next_logits(tokens_for(2, 3), cache, std::vector<std::int64_t>{1, 3});
  EXPECT_THAT(message_of([&] { net.next_logits(tokens_for(1, 1), cache); }),
              HasSubstr("the cache is of 2 sequences, the tokens are of 1"));
}

TEST(KeyValueCache, HasTheDtypeOfTheRegion) {
  manual_seed(1);
  Gpt net(generating_gpt());
  const amp::Autocast region(DType::kBf16);
  expect_cached_logits(net, {4, 1, 2}, kBf16Tolerance);
  const nn::Inference inference(net);
  KeyValueCache cache;
  (void)net.next_logits(tokens_for(1, 3), cache);
  EXPECT_EQ(cache.layer(1).keys.dtype(), DType::kBf16);
  EXPECT_EQ(cache.layer(1).values.shape(), (Shape{1, 2, 3, 4}));
}

TEST(KeyValueCache, SaysWhatDoesNotFit) {
  Gpt net(generating_gpt(4));
  const nn::Inference inference(net);
  KeyValueCache cache;
  (void)net.next_logits(tokens_for(1, 3), cache);
  EXPECT_THAT(message_of([&] { net.next_logits(tokens_for(2, 1), cache); }),
              HasSubstr("the cache is of 1 sequences, the tokens are of 2"));
  EXPECT_THAT(message_of([&] { net.next_logits(tokens_for(1, 2), cache); }),
              HasSubstr("there are 5 tokens, but only 4 positions"));
  EXPECT_THAT(message_of([&] { net.next_logits(tokens_for(1, 0), cache); }),
              HasSubstr("there is no token to go on from"));
  EXPECT_EQ(cache.length(), 3);
}

TEST(SampleToken, TakesTheLikeliest) {
  Generator random(1);
  const std::vector<float> logits = {1, 3, 2, 3};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, random), 1);
  EXPECT_EQ(sample_token(logits, {.top_k = 1}, random), 1);
  EXPECT_EQ(sample_token(logits, {.top_p = 1e-9}, random), 1);
  EXPECT_EQ(random.position(), RandomPosition({1, 3})) << "a number each";
}

// The shares of 4,000 draws. Each has a deviation of at most sqrt(1/4 / 4000) = 0.008.
std::vector<double> shares(const std::vector<float>& logits, const SamplingOptions& options) {
  Generator random(7);
  std::vector<double> counts(logits.size());
  for (int i = 0; i < 4000; ++i) counts[sample_token(logits, options, random)] += 1.0 / 4000;
  return counts;
}

TEST(SampleToken, FollowsTheProbabilities) {
  const std::vector<float> logits = {std::log(1.0F), std::log(2.0F), std::log(5.0F),
                                     -std::numeric_limits<float>::infinity()};
  const auto near = [](double x) { return testing::DoubleNear(x, 0.03); };
  EXPECT_THAT(shares(logits, {}), ElementsAre(near(0.125), near(0.25), near(0.625), 0));
  EXPECT_THAT(shares(logits, {.temperature = 0.5}),
              ElementsAre(near(1 / 30.0), near(4 / 30.0), near(25 / 30.0), 0));
  EXPECT_THAT(shares(logits, {.top_k = 2}), ElementsAre(0, near(2 / 7.0), near(5 / 7.0), 0));
  EXPECT_THAT(shares(logits, {.top_p = 0.8}), ElementsAre(0, near(2 / 7.0), near(5 / 7.0), 0));
  EXPECT_THAT(shares(logits, {.top_p = 0.6}), ElementsAre(0, 0, near(1), 0));
}

TEST(SampleToken, SaysWhatIsWrong) {
  Generator random(1);
  const auto message = [&](const std::vector<float>& logits, const SamplingOptions& options) {
    return message_of([&] { sample_token(logits, options, random); });
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message({1, nan}, {}), HasSubstr("the logit of token 1 is nan. The network has"));
  EXPECT_THAT(message({}, {}), HasSubstr("there are no logits"));
  EXPECT_THAT(message({1}, {.temperature = -1}), HasSubstr("must be finite and not negative"));
  EXPECT_THAT(message({1}, {.top_k = -1}), HasSubstr("top_k must not be negative, it is -1"));
  EXPECT_THAT(message({1}, {.top_p = 0}), HasSubstr("top_p must be in (0, 1], not 0"));
  EXPECT_THAT(message({1}, {.top_p = 1.5}), HasSubstr("top_p must be in (0, 1], not 1.5"));
}

// The likeliest tokens, each from a forward pass over all earlier ones.
std::vector<std::int64_t> greedy(nn::Module& net, std::vector<std::int64_t> text, int count) {
  const nn::Inference inference(net);
  Generator random;
  std::vector<std::int64_t> result;
  for (int i = 0; i < count; ++i) {
    const auto length = static_cast<std::int64_t>(text.size());
    const Tensor logits = slice(net(from_values(text, {1, length})), 1, length - 1, length);
    text.push_back(sample_token(logits.to_vector<float>(), {.temperature = 0}, random));
    result.push_back(text.back());
  }
  return result;
}

TEST(Generate, IsTheForwardPassTokenByToken) {
  manual_seed(3);
  Gpt net(generating_gpt());
  const GenerateOptions options{.tokens = 9, .sampling = {.temperature = 0}};
  const auto results = generate(net, {{1, 2, 3}, {7, 0, 7}}, options);
  EXPECT_THAT(results, ElementsAre(greedy(net, {1, 2, 3}, 9), greedy(net, {7, 0, 7}, 9)));
  EXPECT_TRUE(net.is_training()) << "its mode is kept";
}

TEST(Generate, IsTheSameForTheSameSeed) {
  manual_seed(4);
  Llama net(generating_llama());
  const std::vector<std::int64_t> prompt = {5};
  const GenerateOptions options{.tokens = 12, .seed = 9};
  const auto first = generate(net, {prompt}, options);
  EXPECT_EQ(generate(net, {prompt}, options), first);
  EXPECT_NE(generate(net, {prompt}, {.tokens = 12, .seed = 10}), first);
  EXPECT_THAT(first.at(0), SizeIs(12));
  EXPECT_EQ(generate(net, {{6}, prompt}, {.tokens = 12, .seed = 8}).at(1), first.at(0));
}

// Prompts of unequal length in one batch: each is what it is alone, whatever its neighbours are.
template <class Net>
void expect_each_as_alone(Net& net, const GenerateOptions& options) {
  const std::vector<std::vector<std::int64_t>> prompts = {
      {5}, {1, 2, 3, 4, 5, 6, 7}, {7, 0, 7}, {5}, {12, 11}};
  const auto together = generate(net, prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions alone = options;
    alone.seed += i;
    EXPECT_EQ(generate(net, {prompts[i]}, alone).at(0), together[i]) << i;
  }
}

TEST(Generate, PromptsOfUnequalLengthAreOneBatch) {
  manual_seed(8);
  Gpt gpt(generating_gpt());
  Gpt short_gpt(generating_gpt(6));  // rows reach the longest sequence at different tokens
  Llama llama(generating_llama());
  for (const double temperature : {0.0, 1.0}) {
    const GenerateOptions options{
        .tokens = 24, .sampling = {.temperature = temperature}, .seed = 21};
    expect_each_as_alone(gpt, options);
    expect_each_as_alone(short_gpt, options);
    expect_each_as_alone(llama, options);
  }
}

TEST(Generate, GoesOnBeyondTheLongestSequence) {
  manual_seed(5);
  Gpt net(generating_gpt(6));
  const GenerateOptions options{.tokens = 20, .sampling = {.temperature = 0}};
  const auto results = generate(net, {{1, 2, 3, 4}}, options);
  EXPECT_THAT(results.at(0), SizeIs(20));
  // The first three tokens fit; then the newer half of six positions is read again.
  const std::vector<std::int64_t> early(results[0].begin(), results[0].begin() + 3);
  EXPECT_EQ(early, greedy(net, {1, 2, 3, 4}, 3));
  const std::vector<std::int64_t> next(results[0].begin() + 3, results[0].begin() + 7);
  EXPECT_EQ(next, greedy(net, early, 4));
  EXPECT_THAT(generate(net, {std::vector<std::int64_t>(50, 1)}, {.tokens = 1}).at(0), SizeIs(1));
}

TEST(Generate, EndsWhereItIsTold) {
  manual_seed(6);
  Gpt net(generating_gpt());
  GenerateOptions options{.tokens = 8, .sampling = {.temperature = 0}};
  const auto whole = generate(net, {{1}, {2}}, options);
  options.stops = {whole[0][2]};
  const auto stopped = generate(net, {{1}, {2}}, options);
  EXPECT_THAT(stopped[0], SizeIs(Le(3)));
  EXPECT_EQ(stopped[0].back(), whole[0][2]);
  std::vector<std::int64_t> seen;
  options = {.tokens = 8, .sampling = {.temperature = 0}};
  options.on_token = [&](std::size_t sequence, std::int64_t token) {
    if (sequence == 1) seen.push_back(token);
    return seen.size() < 2;
  };
  EXPECT_THAT(generate(net, {{1}, {2}}, options).at(1), SizeIs(2));
  EXPECT_THAT(seen, ElementsAre(whole[1][0], whole[1][1]));
  EXPECT_THAT(generate(net, {{1}}, {.tokens = 0}).at(0), SizeIs(0));
}

TEST(Generate, SaysWhatIsWrong) {
  Gpt net(generating_gpt());
  EXPECT_THAT(message_of([&] { generate(net, {{}}); }), HasSubstr("a prompt is empty"));
  EXPECT_THAT(message_of([&] { generate(net, {{13}}); }),
              HasSubstr("a prompt has token 13, the vocabulary has 13 tokens"));
  EXPECT_THAT(message_of([&] { generate(net, {{1}}, {.tokens = -1}); }),
              HasSubstr("must not be negative: -1"));
  const auto images = create("mlp");
  EXPECT_THAT(message_of([&] { generate(*images, {{1}}); }), HasSubstr("predicts no tokens"));
}

}  // namespace
}  // namespace mezzo::models
