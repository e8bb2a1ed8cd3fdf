// Tests the commands with language models that are trained on texts.
#include <algorithm>
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

constexpr const char* kSizes = " --model gpt-tiny --tokens 8 --batch-size 2";

struct TextRuns : Command {
  void SetUp() override {
    Command::SetUp();
    std::ofstream text(path("text"));
    for (int i = 0; i < 25; ++i) text << "round and round ";  // 400 bytes, 40 of them for tests
  }

  // `train` with options; they say how long.
  std::string train(const std::string& options) const {
    return concat("train", kSizes, " --data text:", path("text"), " --optimizer adamw ", options);
  }

  // Writes u16 tokens.
  void write_tokens(const std::string& name, const std::vector<int>& tokens) const {
    fs::create_directories(folder_ / "set");
    std::ofstream file(folder_ / "set" / name, std::ios::binary);
    for (const int token : tokens) {
      file.put(static_cast<char>(token & 255));
      file.put(static_cast<char>(token >> 8));
    }
  }
};

TEST_F(TextRuns, TrainReportsTokensAndPerplexity) {
  const Outcome outcome = run(train(
      concat("--steps 6 --eval-every 2 --lr 3e-3 --weight-decay 0.1 --decay-matrices --clip 1 "
             "--accumulate 2 --warmup-steps 2 --lr-schedule half-cosine --seed 3 --json ",
             path("log"), " --report ", path("page"), " --logdir ", path("events"), " --save ",
             path("weights"))));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("gpt-tiny at O2/bf16: perplexity "));
  EXPECT_THAT(outcome.output, HasSubstr(" tokens/s, peak "));
  EXPECT_THAT(outcome.errors, HasSubstr("gpt-tiny  step 2: train loss "));
  EXPECT_THAT(outcome.errors,
              testing::ContainsRegex("epoch 1: train loss [0-9.]+, test loss [0-9.]+, "
                                     "perplexity [0-9.]+, [0-9]+ tokens/s"));
  const std::vector<Json> events = read_events("log");
  const Json& start = events.front();
  EXPECT_EQ(start["tokens"], 8);
  EXPECT_EQ(start["eval_every"], 2);
  EXPECT_EQ(start["warmup_steps"], 2);
  EXPECT_EQ(start["decay_matrices"], true);
  EXPECT_FALSE(start.contains("image_size"));
  EXPECT_EQ(steps_of(events)[0]["lr"], 1.5e-3) << "half of the warm-up";
  EXPECT_EQ(steps_of(events)[1]["lr"], 3e-3);
  EXPECT_LT(steps_of(events)[5]["lr"], 1e-3);
  EXPECT_EQ(events_of(events, "evaluation").size(), 2U) << "after step 6 the epoch is evaluated";
  const Json epoch = events_of(events, "epoch").at(0);
  const Json& result = events.back();
  EXPECT_EQ(result["event"], "result");
  EXPECT_EQ(result["test_loss"], epoch["loss"]);
  EXPECT_EQ(result["loss"], epoch["loss"]);
  EXPECT_DOUBLE_EQ(result["perplexity"].get<double>(), std::exp(epoch["loss"].get<double>()));
  EXPECT_DOUBLE_EQ(result["tokens_per_second"].get<double>(),
                   8 * result["images_per_s"].get<double>());
  EXPECT_GT(epoch["tokens_per_second"], 0);
  EXPECT_FALSE(result.contains("accuracy"));
  const std::string page = read_text("page");
  EXPECT_THAT(page, HasSubstr("and ended with a test perplexity of "));
  EXPECT_THAT(page, HasSubstr("<h3>Test loss</h3>"));
  EXPECT_THAT(page, testing::Not(HasSubstr("accuracy")));
  std::string log;
  for (const auto& entry : fs::directory_iterator(path("events"))) {
    log += read_text("events/" + entry.path().filename().string());
  }
  EXPECT_THAT(log, HasSubstr("train/loss"));
  EXPECT_THAT(log, HasSubstr("test/perplexity"));

  const Outcome eval =
      run(concat("eval", kSizes, " --data text:", path("text"), " --weights ", path("weights"),
                 " --json ", path("eval"), " --logits ", path("logits.npy")));
  ASSERT_EQ(eval.status, 0) << eval.errors;
  EXPECT_THAT(eval.output, HasSubstr(" on 4 sequences, "));
  const Json measured = read_events("eval").back();
  EXPECT_EQ(measured["test_loss"], result["test_loss"]);
  EXPECT_EQ(measured["sequences"], 4);
  EXPECT_THAT(read_text("logits.npy"), HasSubstr("'shape': (4, 8, 256)"));
}

// In eager mode and in graph mode, also over the end of an epoch.
TEST_F(TextRuns, AResumedRunIsTheUnbrokenRun) {
  for (const char* mode : {" --graph --batch-size 15", " --amp O2/f16 --batch-size 15"}) {
    std::string options = train(concat("--lr 1e-3 --eval-every 2 --quiet", mode));
    options.erase(options.find(" --batch-size 2"), std::string(" --batch-size 2").size());
    const std::string whole =
        concat(options, " --save ", path("whole"), " --json ", path("a"), " --steps 5");
    const std::string parts = concat(options, " --checkpoint-dir ", path("run"), " --save ",
                                     path("parts"), " --keep-best --json ", path("b"));
    fs::remove_all(path("run"));
    const Outcome unbroken = run(whole);
    ASSERT_EQ(unbroken.status, 0) << unbroken.errors;
    ASSERT_EQ(run(concat(parts, " --steps 2")).status, 0);
    const Outcome second = run(concat(parts, " --steps 5 --resume"));
    ASSERT_EQ(second.status, 0) << second.errors;
    EXPECT_EQ(steps_of(read_events("a")), steps_of(read_events("b"))) << mode;
    EXPECT_EQ(read_text("whole"), read_text("parts")) << mode;
    EXPECT_TRUE(fs::exists(path("run/best")));
  }
}

TEST_F(TextRuns, CompareHasAColumnOfPerplexities) {
  const Outcome outcome = run(concat("compare", kSizes, " --data text:", path("text"),
                                     " --steps 2 --quiet --levels O0,O2/bf16,O2/f16 --json ",
                                     path("log"), " --report ", path("page")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("tokens/s"));
  EXPECT_THAT(outcome.output, HasSubstr("perplexity"));
  EXPECT_EQ(std::ranges::count(outcome.output, '\n'), 5);
  const std::vector<Json> results = events_of(read_events("log"), "result");
  ASSERT_EQ(results.size(), 3U);
  EXPECT_NEAR(results[1]["test_loss"].get<double>(), results[0]["test_loss"].get<double>(), 0.05);
  EXPECT_THAT(read_text("page"), HasSubstr(">test perplexity</th>"));
}

TEST_F(TextRuns, FilesOfTokensAreTrainedOn) {
  std::vector<int> tokens;
  for (int i = 0; i < 60; ++i) tokens.push_back(i * i % 11);
  write_tokens("train.bin", tokens);
  write_tokens("val.bin", tokens);
  const std::string data = " --data tokens:" + path("set");
  const Outcome outcome = run(concat("train", kSizes, data, " --steps 2 --quiet"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const Outcome shown = run("data tokens:" + path("set") + " --json " + path("log"));
  ASSERT_EQ(shown.status, 0) << shown.errors;
  EXPECT_THAT(shown.output, testing::ContainsRegex("train +60 +u16 +60 +6 +0 +9"));
  EXPECT_EQ(read_events("log").at(1)["largest"], 9);
  EXPECT_EQ(run("data tokens:" + path("set") + " --out " + path("a.png")).status, 2);
  write_tokens("val.bin", {1, 2, 3, 4, 5, 6, 7, 8, 300, 9});
  for (const char* command : {"train", "compare", "eval --weights none"}) {
    const Outcome wrong = run(concat(command, kSizes, data));
    EXPECT_EQ(wrong.status, 2);
    EXPECT_THAT(wrong.errors, HasSubstr("val.bin: token 8 is 300, and the model's vocabulary has"));
  }
}

TEST_F(TextRuns, WrongInputIsOneLine) {
  std::ofstream(path("short")) << "too short for a sequence";
  std::ofstream(path("empty")).flush();
  const std::string text = "--data text:" + path("text");
  const std::pair<std::string, const char*> cases[] = {
      {"--data text:" + path(""), "is a folder. Name a file"},
      {"--data text:" + path("none"), "cannot be opened: No such file"},
      {"--data text:" + path("empty"), "is empty"},
      {"--data text:" + path("short"), "has 2 tokens, too few for a sequence of 8"},
      {"--data tokens:" + path("none"), "there is no such folder"},
      {"--data tokens:" + path(""), "train.bin: there is no such file"},
      {"--data digits", "gpt-tiny reads tokens, and digits has none. Use text:FILE or tokens:DIR"},
      {"", "gpt-tiny reads tokens, and digits has none"},
      {text + " --image-size 8", "Use --tokens"},
      {text + " --mixup 0.2", "[--mixup] is for images"},
      {text + " --bad-images skip", "[--bad-images] is for images"},
      {text + " --class-weights balanced", "[--class-weights] is for images"},
      {text + " --no-augment", "[--no-augment] is for images"},
      {text + " --early-stop 2 --monitor accuracy", "[--monitor] gpt-tiny has no accuracy"},
      {text + " --warmup-steps -1", "--warmup-steps"},
      {text + " --warmup-steps 2 --warmup-epochs 1", "Leave one of the two out"},
      {text + " --warmup-steps 2 --lr-schedule plateau", "Use --warmup-epochs"},
      {text + " --eval-every -1", "--eval-every"},
      {text + " --decay-matrices", "--weight-decay is 0"},
      {text + " --batch-size 100", "the batch is larger than the data set"},
      {text + " --json " + path("text"), "is, or would become, a file of --data"}};
  for (const auto& [options, message] : cases) {
    std::string sizes = kSizes;
    if (options.find("--batch-size") != std::string::npos)
      sizes.resize(sizes.find(" --batch-size"));
    const Outcome outcome = run(concat("train", sizes, " --steps 1 ", options));
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(message)) << options;
  }
  EXPECT_THAT(run("train --model lenet5 --tokens 8 --steps 1").errors,
              HasSubstr("Use --image-size"));
}

}  // namespace
}  // namespace mezzo::cli_tests
