// Tests what remains of a run whose files do not fit on the disk.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

class FullDisk : public Command {
 protected:
  // Limits files to that many blocks, of 512 or 1024 bytes depending on the shell.
  Outcome run_with(int blocks, const std::string& arguments) const {
    const std::string errors = path("stderr");
    const std::string script = concat("ulimit -f ", blocks, "; ", MEZZO_COMMAND, " ", arguments,
                                      " >", path("stdout"), " 2>", errors);
    const int status = WEXITSTATUS(std::system(script.c_str()));
    return {status, read_text("stdout"), read_text("stderr")};
  }
};

TEST_F(FullDisk, EventFilesThatDoNotFitAreOneLineOfError) {
  const Outcome outcome =
      run_with(2, "train --model mlp --amp O0 --batch-size 16 --steps 40 --quiet --logdir " +
                      path("events"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("[tensorboard]"));
}

TEST_F(FullDisk, ThePageIsWrittenWhereTheWeightsDoNotFit) {
  const Outcome outcome =
      run_with(800, concat("train --model mlp --amp O0 --batch-size 16 --steps 2 --quiet --save ",
                           path("weights"), " --report ", path("run.html")));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("weights: cannot be written"));
  EXPECT_THAT(outcome.output, HasSubstr("accuracy"));
  EXPECT_THAT(read_text("run.html"), HasSubstr("</html>"));
  EXPECT_FALSE(fs::exists(path("weights")));
}

}  // namespace
}  // namespace mezzo::cli_tests
