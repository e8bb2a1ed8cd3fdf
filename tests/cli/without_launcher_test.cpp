// Tests commands that a shell starts several times, to train together.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"
#include "tests/unit/distributed/meetings.h"
#ifdef MEZZO_MPIRUN
#include "tests/cli/mpirun.h"
#endif

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr const char* kTrainTogether = "train --momentum 0.9 --quiet ";

class ByVariables : public Command {
 protected:
  // What starts one of `size` processes, whose command line follows.
  static std::string variables(int rank, int size, int port) {
    return concat("env MASTER_ADDR=127.0.0.1 MASTER_PORT=", port, " RANK=", rank,
                  " WORLD_SIZE=", size, " MEZZO_WATCH_SECONDS=60 ");
  }

  // Runs a process for each command line, and `meanwhile`, for which the identifiers of the
  // processes are $pid0, $pid1... The statuses of all are the output.
  Outcome run_processes(const std::vector<std::string>& lines,
                        const std::string& meanwhile = {}) const {
    const int size = static_cast<int>(lines.size());
    const int port = test::free_port();
    std::ofstream script(path("script"));
    std::string waits;
    for (int rank = 0; rank < size; ++rank) {
      script << variables(rank, size, port) << lines[static_cast<std::size_t>(rank)] << " &\n"
             << "pid" << rank << "=$!\n";
      // Some shells say there that a process was killed.
      waits += concat("{ wait $pid", rank, "; } 2>/dev/null; echo $?\n");
    }
    script << meanwhile << '\n' << waits;
    script.close();
    return run_line(concat("sh ", path("script")));
  }

  // The same for commands of the same arguments, without their output.
  Outcome run_alike(int size, const std::string& arguments,
                    const std::string& meanwhile = {}) const {
    const std::string line = concat(MEZZO_COMMAND, " ", arguments, " >/dev/null");
    return run_processes(std::vector<std::string>(static_cast<std::size_t>(size), line), meanwhile);
  }

  // For the shell: waits until that step is logged.
  std::string until_step(int step) const {
    return concat("until grep -q step.:", step, ", ", path("log"), " 2>/dev/null; do sleep 0.02; ",
                  "done\n");
  }
};

#ifdef MEZZO_MPIRUN
TEST_F(ByVariables, TheBitsAreThoseOfMpi) {
  for (const int size : {2, 3}) {
    const std::string options =
        concat(kTrainTogether, "--threads 1 --batch-size 40 --steps 8 --dtype bf16 --json ");
    const Outcome outcome =
        run_alike(size, concat(options, path("a"), " --save ", path("weights_a")));
    ASSERT_EQ(outcome.output, size == 2 ? "0\n0\n" : "0\n0\n0\n") << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    ASSERT_EQ(run_line(concat(kLaunch, "-n ", size, " ", MEZZO_COMMAND, " ", options, path("b"),
                              " --save ", path("weights_b")))
                  .status,
              0);
    EXPECT_EQ(steps_of(read_events("a")).size(), 8U);
    EXPECT_EQ(steps_of(read_events("a")), steps_of(read_events("b")));
    EXPECT_TRUE(read_text("weights_a") == read_text("weights_b"));
    EXPECT_EQ(read_events("a").front()["processes"], size);
  }
}
#endif

TEST_F(ByVariables, OneThatIsKilledEndsTheOthersWithOneLine) {
  const char* const statuses[] = {"137\n1\n1\n", "1\n137\n1\n", "1\n1\n137\n"};
  for (const int killed : {0, 1, 2}) {
    fs::remove(path("log"));
    const Outcome outcome =
        run_alike(3, concat(kTrainTogether, "--epochs 100000 --json ", path("log")),
                  concat(until_step(3), "kill -9 $pid", killed));
    EXPECT_EQ(outcome.output, statuses[killed]);
    EXPECT_THAT(outcome.errors,
                MatchesRegex(concat("mezzo: \\[distributed\\] process ", killed,
                                    " of 3 \\(host .*, pid .*\\) is gone: its connection was "
                                    "closed. Resume from the last checkpoint: the other processes "
                                    "have ended\n")));
  }
}

TEST_F(ByVariables, OneThatFailsSaysSoForAll) {
  const std::string line = concat(MEZZO_COMMAND, " ", kTrainTogether, "--steps 5000 ");
  const Outcome outcome = run_processes({line, line, line + "--data mnist:/no/such/folder"});
  EXPECT_EQ(outcome.output, "2\n2\n2\n");
  EXPECT_EQ(outcome.errors.find('\n') + 1, outcome.errors.size()) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("mezzo: [idx] /no/such/folder: there is no such folder"));
}

TEST_F(ByVariables, OthersThatTrainSomethingElseAreRefused) {
  const std::string line = concat(MEZZO_COMMAND, " ", kTrainTogether, "--steps 5 ");
  const Outcome outcome = run_processes({line, line + "--data shapes --image-size 28"});
  EXPECT_EQ(outcome.output, "2\n2\n");
  EXPECT_THAT(outcome.errors, HasSubstr("shape, dtype or format in process 1 than in process 0"));
}

TEST_F(ByVariables, ASignalStopsAllAfterTheSameStep) {
  const std::string options = concat(kTrainTogether, "--epochs 100000 --checkpoint-dir ",
                                     path("run"), " --json ", path("log"));
  const Outcome stopped = run_alike(2, options, concat(until_step(3), "kill -TERM $pid1"));
  EXPECT_EQ(stopped.output, "1\n1\n");
  EXPECT_THAT(stopped.errors, HasSubstr("stopped by a signal after step"));
  EXPECT_EQ(stopped.errors.find('\n') + 1, stopped.errors.size()) << stopped.errors;
  const int step = read_events("log").back()["step"];
  const Outcome resumed = run_alike(2, concat(options, " --resume --steps ", step + 2));
  EXPECT_EQ(resumed.output, "0\n0\n") << resumed.errors;
  EXPECT_EQ(steps_of(read_events("log")).back()["step"], step + 2);
}

TEST_F(ByVariables, VariablesMustBeRight) {
  const Outcome some = run_line(concat("RANK=1 ", MEZZO_COMMAND, " train --steps 1"));
  EXPECT_EQ(some.status, 2);
  EXPECT_THAT(some.errors, HasSubstr("mezzo: [distributed] of what processes need to find each "
                                     "other, RANK is set, but not MASTER_ADDR, MASTER_PORT, "
                                     "WORLD_SIZE. Set all of"));
  const Outcome rank = run_line(concat(variables(2, 2, 29500), MEZZO_COMMAND, " train --steps 1"));
  EXPECT_EQ(rank.status, 2);
  EXPECT_THAT(rank.errors, HasSubstr("RANK is 2 and WORLD_SIZE 2"));
}

// A library that has the name of the module, and nothing else: who does not load it does not
// notice.
constexpr const char* kEmptyGloo = "/usr/bin/env LD_LIBRARY_PATH=" MEZZO_EMPTY_GLOO " ";

TEST_F(ByVariables, OneThatIsStartedAloneLoadsNoGloo) {
  const Outcome outcome =
      run_line(concat(kEmptyGloo, MEZZO_COMMAND, " train --model mlp --steps 1 --quiet"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
}

TEST_F(ByVariables, AGlooThatCannotBeUsedIsNamed) {
  const Outcome outcome = run_line(
      concat(kEmptyGloo, variables(1, 2, 29500), MEZZO_COMMAND, " train --model mlp --steps 1"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors,
              HasSubstr("[distributed] Gloo, by which processes train together that no MPI has "
                        "started, is of another version: libmezzo-gloo.so has no mezzo_gloo_"));
}

}  // namespace
}  // namespace mezzo::cli_tests
