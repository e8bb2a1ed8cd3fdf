// Tests kill -9 at any step: the resumed run equals the run that was never killed, bit for bit.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/models/model.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/ops/arithmetic.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

constexpr std::int64_t kSteps = 60;
constexpr std::int64_t kTokenSteps = 40;  // of a network a hundred times as large
// A killed run is at most a page of log lines ahead of the reader, and such a line has 150 bytes.
constexpr std::int64_t kLinesAhead = 30;
constexpr std::int64_t kLastKill = kSteps - kLinesAhead;

class Kill : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    write_cifar10(folder_, 8);  // ten steps per epoch, with random crops and flips
  }

  // Runs the command until it has logged that step, kills it after the delay, and returns
  // everything that it logged. The log goes through a pipe that holds one page, so that the command
  // cannot finish before it is killed, however slow this process is.
  std::vector<Json> run_killed(const std::string& arguments, std::int64_t step,
                               std::chrono::milliseconds delay = {}) const {
    int ends[2];
    if (pipe(ends) != 0) return {};
    EXPECT_GE(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
    const std::string line = concat("exec ", MEZZO_COMMAND, " ", arguments, " --json /dev/fd/",
                                    ends[1], " 2>", path("killed_errors"));
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    std::vector<Json> events = read_until(ends[0], [&](const Json& event) {
      if (event["event"] != "step" || event["step"] != step) return;
      std::this_thread::sleep_for(delay);
      kill(child, SIGKILL);
    });
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << read_text("killed_errors");
    return events;
  }

  void expect_unbroken(const std::string& options, std::int64_t killed_step,
                       const std::string& checkpoints) const {
    SCOPED_TRACE(concat(options, ", ", checkpoints, ", killed after step ", killed_step));
    const std::vector<Json> whole = run_whole(options);
    const std::string part = with_checkpoints(options, checkpoints);
    const std::vector<Json> killed = run_killed(part, killed_step);
    expect_resumed(whole, killed, part);
  }

  std::vector<Json> run_whole(const std::string& options, std::int64_t steps = kSteps) const {
    const Outcome outcome = run(concat(options, " --save ", path("whole"), " --json ", path("a")));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    std::vector<Json> events = read_events("a");
    EXPECT_EQ(steps_of(events).size(), static_cast<std::size_t>(steps));
    return events;
  }

  std::string with_checkpoints(const std::string& options, const std::string& checkpoints) const {
    fs::remove_all(path("run"));
    return concat(options, " --checkpoint-dir ", path("run"), " ", checkpoints);
  }

  // Resumes a killed run and compares everything with the unbroken one.
  void expect_resumed(const std::vector<Json>& whole, const std::vector<Json>& killed,
                      const std::string& part) const {
    fs::remove(path("b"));  // a resumed run continues its log
    const Outcome outcome =
        run(concat(part, " --resume --save ", path("parts"), " --json ", path("b")));
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const std::vector<Json> resumed = read_events("b");
    for (const char* kind : {"step", "epoch"}) {
      const auto expected = by_number(whole, kind);
      auto seen = by_number(killed, kind);
      for (const auto& [number, event] : seen) EXPECT_EQ(event, expected.at(number));
      const auto again = by_number(resumed, kind);
      for (const auto& [number, event] : again) EXPECT_EQ(event, expected.at(number));
      seen.insert(again.begin(), again.end());
      EXPECT_EQ(seen.size(), expected.size()) << kind;
    }
    for (const char* value : {"loss", "accuracy", "skipped_steps", "steps", "epochs"}) {
      EXPECT_EQ(resumed.back().value(value, Json()), whole.back().value(value, Json())) << value;
    }
    EXPECT_TRUE(read_text("parts") == read_text("whole")) << "other weights";
  }

  void remove_checkpoints_after(std::int64_t step) const {
    std::vector<fs::path> newer;
    for (const auto& entry : fs::directory_iterator(path("run"))) {
      const std::string name = entry.path().filename().string();
      if (std::stoll(name.substr(name.rfind('-') + 1)) > step) newer.push_back(entry.path());
    }
    for (const fs::path& checkpoint : newer) fs::remove_all(checkpoint);
  }

  std::string train(const std::string& options, std::int64_t batch_size = 4) const {
    return concat("train --quiet --momentum 0.9 --epochs 6 --steps ", kSteps, " --batch-size ",
                  batch_size, " --data cifar10:", path(""), " ", options);
  }

  // Kills the run after the first and after the last of the early steps that were skipped.
  void expect_unbroken_after_skips(const std::string& options) const {
    const std::vector<Json> whole = run_whole(options);
    std::vector<std::int64_t> skipped;
    for (const Json& step : steps_of(whole)) {
      if (step["skipped"] && step["step"] <= 12) skipped.push_back(step["step"]);
    }
    ASSERT_GE(skipped.size(), 2U);
    EXPECT_LT(whole.back()["skipped_steps"], kSteps - 10);
    for (const std::int64_t step : {skipped.front(), skipped.back()}) {
      SCOPED_TRACE(concat(options, ", killed after step ", step));
      const std::string part = with_checkpoints(options, "");
      const std::vector<Json> killed =
          run_killed(part + " --checkpoint-every 1 --keep 0", step + 1);
      remove_checkpoints_after(step);  // those written before the kill took effect
      expect_resumed(whole, killed, part);
      EXPECT_EQ(steps_of(read_events("b")).front()["step"], step + 1);
    }
  }

  // Step or epoch events by number; each number occurs once.
  static std::map<std::int64_t, Json> by_number(const std::vector<Json>& events,
                                                const std::string& kind) {
    std::map<std::int64_t, Json> result;
    for (Json& event : events_of(events, kind)) {
      event.erase("tokens_per_second");
      EXPECT_TRUE(result.emplace(event[kind].get<std::int64_t>(), event).second) << event;
    }
    return result;
  }

 private:
  // Passes every event to `see` before it reads the next one. A torn last line does not count.
  template <class See>
  static std::vector<Json> read_until(int file, const See& see) {
    std::vector<Json> events;
    std::string line;
    for (char c = 0; read(file, &c, 1) == 1;) {
      line += c;
      if (c != '\n') continue;
      events.push_back(Json::parse(line));
      see(events.back());
      line.clear();
    }
    return events;
  }
};

TEST_F(Kill, AtAnyStepInAnyPrecisionWithAnyWorkers) {
  std::mt19937 random(20);  // NOLINT(cert-msc51-cpp): the same steps in every run
  for (const char* precision : {"--amp O0", "--dtype bf16", "--dtype f16"}) {
    for (const char* workers : {"0", "2"}) {
      const std::int64_t step = 1 + static_cast<std::int64_t>(random() % kLastKill);
      const std::string every = concat("--checkpoint-every ", 1 + random() % 7);
      const std::string options = concat(precision, " --workers ", workers);
      expect_unbroken(train(concat("--model lenet5 ", options)), step, every);
    }
  }
}

// Batch norm has running statistics, and the schedule changes the rate in every step.
TEST_F(Kill, ANetworkWithBatchNormOnASchedule) {
  const std::string options =
      "--model resnet20 --lr-schedule poly --warmup-epochs 2 --workers 2 --lr 0.05 --dtype ";
  expect_unbroken(train(options + "bf16"), 17, "");  // checkpoints after epochs
  expect_unbroken(train(options + "f16"), 23, "--checkpoint-every 4 --keep-best");
}

// A plan's operations leave the range of f16 in the middle of the run and are widened: the first
// layer's results are too small.
TEST_F(Kill, ARunByAPlanThatIsWidened) {
  manual_seed(1);
  const auto net = models::create("lenet5", {.in_channels = 3, .image_size = 32});
  for (const NamedTensor& entry : net->named_parameters()) {
    if (entry.name == "conv1.weight") copy_elements(entry.tensor * 1e-5, entry.tensor);
    if (entry.name == "conv1.bias") copy_elements(entry.tensor * 0, entry.tensor);
  }
  io::write_safetensors(path("small"), models::to_weight_file(*net));
  std::ofstream(path("plan")) << R"({"format": "mezzo precision plan", "version": 1, "operations": [
    {"module": "conv1", "op": "conv2d", "dtype": "f16"},
    {"module": "conv2", "op": "conv2d", "dtype": "bf16"},
    {"module": "fc1", "op": "linear", "dtype": "f16"}, {"module": "fc2", "op": "linear", "dtype": "f32"},
    {"module": "fc3", "op": "linear", "dtype": "f16"},
    {"module": "", "op": "relu", "dtype": "f32"}, {"module": "", "op": "max_pool2d", "dtype": "f32"}]})";
  const std::string options = concat("--model lenet5 --lr 1e-4 --workers 0 --watch-every 7 --plan ",
                                     path("plan"), " --weights ", path("small"));
  for (const std::int64_t step : {5, 20}) {
    expect_unbroken(train(options), step, "--checkpoint-every 3");
    const std::vector<Json> widened = events_of(read_events("a"), "plan_widened");
    ASSERT_GE(widened.size(), 1U);
    EXPECT_EQ(widened[0]["module"], "conv1");
    EXPECT_EQ(widened[0]["step"], 7);
  }
}

TEST_F(Kill, OnTheBuiltInDigits) {
  const std::string options =
      "train --model mlp --quiet --momentum 0.9 --batch-size 32 --workers 2 --dtype bf16 --steps ";
  expect_unbroken(concat(options, kSteps), 11, "--checkpoint-every 3");
}

// How many moments of each token run are tried, where MEZZO_TEST_KILLS says so, and 0 where it does
// not.
int moments_to_try() {
  const char* const given = std::getenv("MEZZO_TEST_KILLS");
  return given == nullptr ? 0 : std::max(1, std::atoi(given));
}

// A language model that reads tokens. It is killed at any moment, such as within a step or within
// a checkpoint, which has 130 MB; so the checkpoint from which it goes on is any of the last ones.
TEST_F(Kill, ATokenRunAtAnyMoment) {
  std::ofstream text(path("text"));
  for (int i = 0; i < 200; ++i) text << "line " << i * i << '\n';
  text.close();
  std::mt19937 random(40);  // NOLINT(cert-msc51-cpp): the same moments in every run
  std::vector<const char*> modes = {"--amp O0 --graph", "--amp O2/bf16",
                                    "--amp O2/bf16 --graph --optimizer-state e4m3"};
  if (moments_to_try() > 0) modes.insert(modes.end(), {"--amp O0", "--amp O2/bf16 --graph"});
  for (const char* mode : modes) {
    const std::string options = concat(
        "train --model gpt-tiny --quiet --optimizer adamw --tokens 32 --batch-size 2 "
        "--epochs 9 --steps ",
        kTokenSteps, " --data text:", path("text"), " ", mode);
    const std::vector<Json> whole = run_whole(options, kTokenSteps);
    for (int i = 0; i < std::max(1, moments_to_try()); ++i) {
      const std::int64_t step =
          1 + static_cast<std::int64_t>(random() % (kTokenSteps - kLinesAhead));
      const std::chrono::milliseconds delay(random() % 200);
      const std::string part =
          with_checkpoints(options, concat("--checkpoint-every ", 2 + random() % 6));
      SCOPED_TRACE(concat(part, ", killed ", delay.count(), " ms after step ", step));
      expect_resumed(whole, run_killed(part, step, delay), part);
    }
  }
}

// The checkpoint is that of a skipped step.
TEST_F(Kill, RightAfterASkippedStep) {
  // With this scale, f16 gradients overflow where the network is sure of a wrong class.
  expect_unbroken_after_skips(
      train("--model lenet5 --lr 0.02 --dtype f16 --loss-scale 288000 --workers 0"));
  // The rate makes the network unstable, and the scale shrinks step by step.
  expect_unbroken_after_skips(train("--model resnet20 --lr 1 --dtype f16 --workers 2", 1));
}

}  // namespace
}  // namespace mezzo::cli_tests
