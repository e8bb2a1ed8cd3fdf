// Tests commands that a launcher starts several times, to train together.
#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"
#include "tests/cli/mpirun.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

class Together : public Command {
 protected:
  // Runs two processes, each by a line of its own for the shell. Not as `mpirun -n 1 A : -n 1 B`,
  // which crashes Open MPI 5.0.7.
  Outcome run_each(const std::string& first, const std::string& second) const {
    return run_line(concat(kLaunch, "-n 2 sh -c 'case $OMPI_COMM_WORLD_RANK in 0) ", first,
                           " ;; *) ", second, " ;; esac'"));
  }
  // Runs `mpirun -n 2 mezzo ARGUMENTS`; `options` are added for the second process only.
  Outcome run_two(const std::string& arguments, const std::string& options = {}) const {
    const std::string command = concat("exec " MEZZO_COMMAND " ", arguments);
    return run_each(command, concat(command, " ", options));
  }
};

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

constexpr const char* kTrain = "train --batch-size 100 --momentum 0.9 --quiet ";

TEST_F(Together, OneSaysWhatAllDo) {
  const Outcome outcome =
      run_two(concat(kTrain, "--steps 7 --json ", path("log"), " --save ", path("weights"),
                     " --report ", path("page.html"), " --logdir ", path("events")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(std::ranges::count(outcome.output, '\n'), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("lenet5 at O2/bf16: accuracy"));
  const std::vector<Json> events = read_events("log");
  const std::size_t histograms = events_of(events, "histogram").size();
  EXPECT_GT(histograms, 0U);
  ASSERT_EQ(events.size(), 1 + 7 + 1 + histograms + 1);
  EXPECT_EQ(events.front()["processes"], 2);
  EXPECT_EQ(events.front()["batch_size"], 100);
  EXPECT_EQ(events.back()["steps"], 7);
  EXPECT_TRUE(fs::exists(path("weights")));
  EXPECT_TRUE(fs::exists(path("page.html")));
  const auto files = fs::directory_iterator(path("events"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(Together, AResumedRunIsTheUnbrokenRun) {
  for (const char* mode : {"--dtype bf16", "--dtype f16 --graph"}) {
    const std::string options = concat(kTrain, mode);
    const std::string parts = concat(options, " --checkpoint-every 5 --checkpoint-dir ",
                                     path("run"), " --save ", path("parts"), " --json ", path("b"));
    fs::remove_all(path("run"));
    ASSERT_EQ(run_two(concat(options, " --steps 24 --save ", path("whole"), " --json ", path("a")))
                  .status,
              0);
    ASSERT_EQ(run_two(concat(parts, " --steps 13")).status, 0);
    const Outcome second = run_two(concat(parts, " --steps 24 --resume"));
    ASSERT_EQ(second.status, 0) << second.errors;
    EXPECT_EQ(steps_of(read_events("a")), steps_of(read_events("b"))) << mode;
    EXPECT_EQ(read_text("whole"), read_text("parts")) << mode;
  }
}

// Each process computes half of what one process does with batches of twice that size. f32 sums in
// another order differ only in their last bits.
TEST_F(Together, LossesAreThoseOfBatchesOfBoth) {
  const std::string options = "train --amp O0 --steps 5 --quiet --json ";
  ASSERT_EQ(run_two(concat(options, path("two"), " --batch-size 50")).status, 0);
  ASSERT_EQ(run(concat(options, path("one"), " --batch-size 100")).status, 0);
  const std::vector<Json> two = steps_of(read_events("two"));
  const std::vector<Json> one = steps_of(read_events("one"));
  ASSERT_EQ(two.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double expected = one[i]["loss"];
    EXPECT_NEAR(two[i]["loss"], expected, 1e-5 * expected) << i;
  }
}

TEST_F(Together, ASharedOptimizerHasTheSameBits) {
  const std::string options =
      "train --model resnet20 --data shapes --image-size 16 --batch-size 8 "
      "--optimizer adamw --steps 3 --quiet --json ";
  for (const char* mode : {"", " --graph", " --reduce-dtype bf16"}) {
    ASSERT_EQ(run_two(concat(options, path("whole"), mode, " --save ", path("a"))).status, 0);
    const Outcome shared =
        run_two(concat(options, path("parts"), mode, " --shard-optimizer --save ", path("b")));
    ASSERT_EQ(shared.status, 0) << shared.errors;
    EXPECT_EQ(steps_of(read_events("whole")), steps_of(read_events("parts"))) << mode;
    EXPECT_EQ(read_text("a"), read_text("b")) << mode;
    EXPECT_EQ(read_events("parts").front()["shard_optimizer"], true);
  }
  EXPECT_EQ(read_events("parts").front()["reduce_dtype"], "bf16");
}

TEST_F(Together, ReduceDTypeIsAFloat) {
  const Outcome outcome = run_two("train --reduce-dtype e4m3 --steps 1 --quiet");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("[--reduce-dtype] `e4m3` is not a dtype in which"));
}

// Two processes go on alone, and one in two, with as many images in a step. On as many
// micro-batches the sums have the same order.
TEST_F(Together, ARunGoesOnWithAnotherNumberOfProcesses) {
  const std::string options =
      concat("train --amp O0 --optimizer adamw --threads 1 --quiet --checkpoint-every 4 ",
             "--checkpoint-dir ", path("run"), " --save ", path("end"));
  const std::string two = concat(options, " --batch-size 50 --shard-optimizer");
  const std::string one = concat(options, " --batch-size 100 --accumulate 2");
  ASSERT_EQ(run_two(concat(two, " --steps 9")).status, 0);
  const std::string expected = read_text("end");
  const auto starts_anew = [&] { fs::remove_all(path("run")); };
  starts_anew();
  ASSERT_EQ(run_two(concat(two, " --steps 4")).status, 0);
  const Outcome alone = run(concat(one, " --steps 9 --resume"));
  ASSERT_EQ(alone.status, 0) << alone.errors;
  EXPECT_TRUE(read_text("end") == expected);
  starts_anew();
  ASSERT_EQ(run(concat(one, " --steps 4")).status, 0);
  const Outcome both = run_two(concat(two, " --steps 9 --resume"));
  ASSERT_EQ(both.status, 0) << both.errors;
  EXPECT_TRUE(read_text("end") == expected);
  const Outcome other = run(concat(options, " --batch-size 50 --steps 12 --resume"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("the run was started with --batch-size times processes 100"));
}

// Each process evaluates every other batch of the text.
TEST_F(Together, ATextIsEvaluatedAsOneWouldDo) {
  std::ofstream text(path("text"));
  for (int i = 0; i < 40; ++i) text << "round and round ";
  text.close();
  const std::string model =
      concat(" --model gpt-tiny --tokens 8 --batch-size 3 --amp O0 --data text:", path("text"));
  const Outcome outcome = run_two(concat("train", model, " --steps 2 --quiet --json ", path("two"),
                                         " --save ", path("weights")));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  ASSERT_EQ(
      run(concat("eval", model, " --quiet --weights ", path("weights"), " --json ", path("one")))
          .status,
      0);
  const double expected = read_events("one").back()["test_loss"];
  EXPECT_NEAR(read_events("two").back()["test_loss"], expected, 1e-5 * expected);
}

// With batch norm, whose statistics cover both processes.
TEST_F(Together, SynchronizedNormsAreThoseOfBatchesOfBoth) {
  const std::string options =
      "train --model resnet20 --data shapes --image-size 16 --amp O0 --steps 1 --quiet --json ";
  const std::string both = concat(options, path("two"), " --sync-batchnorm --batch-size 8");
  const Outcome outcome = run_two(both);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  ASSERT_EQ(run(concat(options, path("one"), " --batch-size 16")).status, 0);
  const double expected = steps_of(read_events("one")).at(0)["loss"];
  EXPECT_NEAR(steps_of(read_events("two")).at(0)["loss"], expected, 1e-5 * expected);
  EXPECT_EQ(read_events("two").front()["sync_batchnorm"], true);
}

TEST_F(Together, ThereMustBeNormsToSynchronize) {
  const Outcome outcome = run_two("train --sync-batchnorm --steps 1 --quiet");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("[--sync-batchnorm] lenet5 has no batch normalization"));
}

// Includes the process that the signal does not reach; the launcher leaves time for writing.
TEST_F(Together, ASignalEndsAllBehindTheSameStep) {
  const std::string options =
      concat(kTrain, "--epochs 1000 --checkpoint-dir ", path("run"), " --json ", path("log"));
  const std::string command = concat(MEZZO_COMMAND, " ", options);
  const Outcome stopped = run_each(
      concat("exec ", command), concat(command, " & pid=$!; until grep -q step.:3, ", path("log"),
                                       "; do sleep 0.02; done; kill -TERM $pid; wait $pid"));
  EXPECT_EQ(stopped.status, 1) << stopped.errors;
  EXPECT_EQ(count_of(stopped.errors, "stopped by a signal after step"), 1);
  const std::vector<Json> events = read_events("log");
  ASSERT_EQ(events.back()["event"], "stopped");
  const int step = events.back()["step"];
  EXPECT_GE(step, 3);
  ASSERT_EQ(run_two(concat(options, " --resume --steps ", step + 2)).status, 0);
  EXPECT_EQ(steps_of(read_events("log")).back()["step"], step + 2);
}

TEST_F(Together, OneThatFailsEndsAll) {
  const Outcome outcome = run_two(concat(kTrain, "--steps 5000"), "--data mnist:/no/such/folder");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("mezzo: [idx] /no/such/folder: there is no such folder"));
  EXPECT_EQ(outcome.output, "");
}

TEST_F(Together, OthersThatTrainSomethingElseAreRefused) {
  const Outcome steps = run_two(concat(kTrain, "--steps 5"), "--data shapes --image-size 28");
  EXPECT_EQ(steps.status, 2);
  EXPECT_THAT(steps.errors, HasSubstr("shape, dtype or format in process 1 than in process 0"));
}

TEST_F(Together, OneWarnsOfWhatAllDo) {
  const Outcome outcome = run_two("bench --model mlp --keep-f32 add --steps 1 --warmup 1 --quiet");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(count_of(outcome.errors, "mlp does not call `add`"), 1) << outcome.errors;
}

TEST_F(Together, BenchAndCompareShareTheWork) {
  const Outcome bench = run_two("bench --model lenet5 --steps 2 --warmup 1 --quiet");
  ASSERT_EQ(bench.status, 0) << bench.errors;
  EXPECT_THAT(bench.output, HasSubstr("batch 64 in each of 2 processes\n"));
  EXPECT_THAT(bench.output, HasSubstr(" sent by this process in a step\n"));
  const Outcome compare = run_two("compare --levels O0,O2 --steps 2 --quiet");
  ASSERT_EQ(compare.status, 0) << compare.errors;
  EXPECT_EQ(std::ranges::count(compare.output, '\n'), 4) << compare.output;
}

// A library that has the name of MPI's and none of its functions: who does not load it does not
// notice.
constexpr const char* kEmptyMpi = "/usr/bin/env LD_LIBRARY_PATH=" MEZZO_EMPTY_MPI " ";

TEST_F(Together, OneThatIsStartedAloneLoadsNoMpi) {
  const Outcome outcome =
      run_line(concat(kEmptyMpi, MEZZO_COMMAND, " train --model mlp --steps 1 --quiet"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
}

TEST_F(Together, AnMpiThatCannotBeUsedIsNamed) {
  const Outcome outcome =
      run_line(concat(kEmptyMpi, "OMPI_COMM_WORLD_SIZE=2 ", MEZZO_COMMAND, " train --steps 1"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("[distributed] the MPI by which the processes of a "
                                        "launcher train together is of another version: "));
  EXPECT_THAT(outcome.errors, HasSubstr(MEZZO_MPI_LIBRARY " has no MPI_"));
}

}  // namespace
}  // namespace mezzo::cli_tests
