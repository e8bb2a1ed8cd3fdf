// Tests runs of language models on texts.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/train/configuration.h"
#include "mezzo/train/run.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using data::TempFolder;
using testing::HasSubstr;

class TextEvents final : public RunObserver {
 public:
  void on_step(const StepEvent& event) override { losses.push_back(event.report.loss); }
  void on_epoch(const EpochEvent& event) override { epochs.push_back(event); }
  void on_evaluation(const EvaluationEvent& event) override { evaluations.push_back(event); }
  void on_first_batch(const data::Batch&, const data::Dataset&) override { ADD_FAILURE(); }
  std::vector<double> losses;
  std::vector<EpochEvent> epochs;
  std::vector<EvaluationEvent> evaluations;
};

// A text of 300 letters: 33 sequences of 8 tokens to train on, and 3 for tests.
std::string write_text(const TempFolder& folder) {
  data::Bytes text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<std::uint8_t>('a' + i * i % 7));
  return folder.write("text", text);
}

RunOptions options_for(const TempFolder& folder) {
  RunOptions options;
  options.model = "gpt-tiny";
  options.data = "text:" + write_text(folder);
  options.policy = {amp::Level::kO2, DType::kBf16};
  options.tokens = 8;
  options.batch_size = 2;
  options.optimizer = usual_options(OptimizerKind::kAdamW);
  options.steps = 6;
  return options;
}

struct Ran {
  RunResult result{};
  TextEvents events{};
  std::vector<NamedTensor> weights{};
};

Ran run_with(const RunOptions& options) {
  Ran ran;
  std::unique_ptr<nn::Module> net;
  ran.result = run(options, open_data(options), ran.events, &net);
  if (net != nullptr) ran.weights = net->state();
  return ran;
}

void expect_same_bits(const Ran& a, const Ran& b) {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    ASSERT_EQ(a.weights[i].tensor.to_vector<float>(), b.weights[i].tensor.to_vector<float>())
        << a.weights[i].name;
  }
  EXPECT_EQ(a.result.test.loss, b.result.test.loss);
}

TEST(TokenRun, ReportsTheLossOfTokens) {
  const TempFolder folder;
  RunOptions options = options_for(folder);
  options.steps.reset();
  const Ran ran = run_with(options);
  EXPECT_EQ(ran.result.steps, 16);  // 33 sequences in twos
  ASSERT_EQ(ran.events.epochs.size(), 1U);
  EXPECT_NEAR(ran.events.losses.front(), std::log(256), 0.5) << "it knows nothing yet";
  EXPECT_LT(ran.result.test.loss, 3) << "only seven letters occur";
  EXPECT_FALSE(ran.result.test.has_accuracy());
  EXPECT_EQ(ran.result.test.perplexity(), std::exp(ran.result.test.loss));
  EXPECT_EQ(ran.result.tokens_per_s, 8 * ran.result.images_per_s);
  EXPECT_GT(ran.events.epochs[0].tokens_per_s, 0);
}

TEST(TokenRun, IsEvaluatedAsEvaluateDoes) {
  const TempFolder folder;
  const RunOptions options = options_for(folder);
  const DataPair data = open_data(options);
  TextEvents events;
  std::unique_ptr<nn::Module> net;
  const double loss = run(options, data, events, &net).test.loss;
  const auto loss_at = [&](std::int64_t batch_size) {
    return evaluate(*net, *data.test_tokens, 8,
                    {.batch_size = batch_size, .policy = options.policy})
        .loss;
  };
  EXPECT_EQ(loss_at(2), loss);
  EXPECT_NEAR(loss_at(3), loss, 1e-3) << "a mean over all tokens, whatever the batches are";
}

// Dropout and the places of sequences continue where they were. The tests of the command do the
// same in eager mode.
TEST(TokenRun, AResumedRunIsTheUnbrokenRun) {
  const TempFolder folder;
  RunOptions options = options_for(folder);
  options.graph = true;
  options.watch.eval_every = 2;
  const Ran whole = run_with(options);
  options.checkpoints = {.folder = folder.path("run"), .every = 3, .keep = 1};
  options.steps = 3;
  run_with(options);
  options.steps = 6;
  options.checkpoints.resume = true;
  const Ran second = run_with(options);
  EXPECT_EQ(second.events.losses.size(), 3U);
  EXPECT_EQ(second.events.losses.back(), whole.events.losses.back());
  expect_same_bits(whole, second);
  options.tokens = 9;
  EXPECT_THAT(message_of<ArgumentError>([&] { run_with(options); }),
              HasSubstr("the run was started with --tokens 8, not 9"));
}

TEST(TokenRun, GraphModeGivesTheBitsOfEagerMode) {
  const TempFolder folder;
  RunOptions options = options_for(folder);
  options.steps = 3;
  options.policy = amp::Policy{amp::Level::kO0};
  const Ran eager = run_with(options);
  options.graph = true;
  expect_same_bits(eager, run_with(options));
}

TEST(TokenRun, KeepsTheCheckpointOfTheLeastLoss) {
  const TempFolder folder;
  RunOptions options = options_for(folder);
  options.watch.eval_every = 2;
  options.optimizer.lr = 0.3;  // it gets worse soon
  options.checkpoints = {.folder = folder.path("run"), .keep_best = true};
  const Ran ran = run_with(options);
  ASSERT_EQ(ran.events.evaluations.size(), 2U);  // after steps 2 and 4; that of step 6 ends the run
  double least = ran.result.test.loss;
  std::int64_t step = 6;
  for (const EvaluationEvent& event : ran.events.evaluations) {
    EXPECT_FALSE(event.test.has_accuracy());
    if (event.test.loss > least) continue;
    least = event.test.loss;
    step = event.step;
  }
  const std::vector<std::string> kept = io::names_in(folder.path("run/best"));
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_THAT(kept[0], testing::EndsWith(concat("-step-", step)));
}

TEST(TokenRun, SaysWhatDoesNotFit) {
  const TempFolder folder;
  const auto error_of = [&](auto change) {
    RunOptions options = options_for(folder);
    change(options);
    return message_of<Error>([&] { open_data(options); });
  };
  EXPECT_EQ(error_of([](RunOptions& o) { o.data = "digits"; }),
            "[--data] gpt-tiny reads tokens, and digits has none. Use text:FILE or tokens:DIR");
  EXPECT_THAT(error_of([](RunOptions& o) {
                o.model = "mlp";
                o.tokens = 0;
              }),
              HasSubstr("[--data] mlp reads images, and text:"));
  EXPECT_THAT(error_of([](RunOptions& o) { o.model = "text-lstm"; }),
              HasSubstr("[--model] text-lstm classifies sequences"));
  EXPECT_EQ(error_of([](RunOptions& o) { o.mix.mixup = 1; }),
            "[--mixup] is for images, and gpt-tiny reads tokens. Leave it out");
  EXPECT_THAT(error_of([](RunOptions& o) { o.loss.balances_classes = true; }),
              HasSubstr("[--class-weights] is for images"));
  EXPECT_THAT(error_of([](RunOptions& o) { o.image_size = 8; }), HasSubstr("Use --tokens"));
  EXPECT_THAT(error_of([&](RunOptions& o) {
                folder.write("train.bin", {0, 1, 1, 1});
                o.data = "tokens:" + folder.path();
              }),
              HasSubstr("train.bin: token 0 is 256, and the model's vocabulary has 256"));
  RunOptions options = options_for(folder);
  options.tokens = 30;
  EXPECT_THAT(message_of<ArgumentError>([&] { run_with(options); }),
              HasSubstr("text (its last tenth): has 30 tokens, too few for a sequence of 30"));
}

}  // namespace
}  // namespace mezzo::train
