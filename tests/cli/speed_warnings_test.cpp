// Tests which commands warn that 16 bits are not fast.
#include <algorithm>
#include <utility>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

struct SpeedWarnings : Command {
  // The standard error of that command line on a CPU without fast 16 bits.
  std::string errors_of(const std::string& arguments) const {
    return run_line(
               concat("{ ", kWithoutFastBf16, MEZZO_COMMAND, " ", arguments, " 2>&1 >/dev/null; }"))
        .output;
  }
};

TEST_F(SpeedWarnings, SaysOnceThat16BitsAreNotFastWhereTimeIsSpent) {
  for (const char* command :
       {"train --steps 3", "train --graph --steps 3", "bench --warmup 1 --steps 2",
        "bench --graph --warmup 1 --steps 2", "compare --levels O0,O2,O3 --steps 2"}) {
    for (const auto& [dtype, warning] : {std::pair("bf16", "no fast bf16 dot product"),
                                         std::pair("f16", "f16 is computed in f32")}) {
      const std::string text =
          errors_of(concat(command, " --quiet --batch-size 16 --dtype ", dtype));
      EXPECT_THAT(text, HasSubstr(warning)) << command;
      EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << command << "\n" << text;
    }
  }
}

// These commands promise no speed, and scripts read their output.
TEST_F(SpeedWarnings, SaysNothingOfSpeedWhereNobodyTrains) {
  ASSERT_EQ(run("train --quiet --steps 1 --save " + path("w")).status, 0);
  for (const char* dtype : {"bf16", "f16"}) {
    for (const std::string command : {"plan lenet5", "plan lenet5 --graph", "plan resnet18"}) {
      EXPECT_EQ(errors_of(concat(command, " --dtype ", dtype)), "") << command;
    }
    const std::string eval = concat("eval --quiet --weights ", path("w"), " --dtype ", dtype);
    EXPECT_EQ(errors_of(eval), "");
  }
}

}  // namespace
}  // namespace mezzo::cli_tests
