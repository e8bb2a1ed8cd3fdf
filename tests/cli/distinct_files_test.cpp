// Files that the command line names twice.
#include <gmock/gmock.h>

#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

TEST_F(Command, NoFileIsWrittenOverAnother) {
  ASSERT_EQ(run("train --steps 1 --save " + path("w")).status, 0);
  const std::string weights = read_text("w");
  fs::create_hard_link(folder_ / "w", folder_ / "linked");
  const std::string by_a_detour = (folder_ / "." / "w").string();
  const std::string new_file = path("new");
  const std::string new_by_a_detour = (folder_ / ".." / folder_.filename() / "new").string();
  for (const std::string& arguments : {
           "eval --weights " + path("w") + " --logits " + by_a_detour,
           "eval --weights " + path("w") + " --logits " + path("linked"),
           "export --weights " + path("w") + " --out " + path("w"),
           "train --steps 1 --weights " + path("w") + " --report " + path("w"),
           "train --steps 1 --json " + new_file + " --save " + new_by_a_detour,
           "train --steps 1 --json " + new_file + " --report " + new_file,
           "compare --steps 1 --json " + new_file + " --report " + new_file,
           "plan --graph --dot " + new_file + " --text " + new_file,
           "plan --graph --dot " + new_file + " --json " + new_file,
       }) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(": is the file of --")) << arguments;
    EXPECT_EQ(read_text("w"), weights) << arguments;
    EXPECT_FALSE(fs::exists(new_file)) << arguments;
  }
}

TEST_F(Command, ANewFileIsTheSameWithAndWithoutItsFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const Outcome outcome = run("train --steps 1 --json new --report ./new");
  fs::current_path(before);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr(": is the file of --json, too."));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(Command, WeightsMayBeSavedWhereTheyCameFrom) {
  ASSERT_EQ(run("train --steps 1 --save " + path("w")).status, 0);
  const std::string before = read_text("w");
  EXPECT_EQ(run("train --steps 1 --weights " + path("w") + " --save " + path("w")).status, 0);
  EXPECT_NE(read_text("w"), before);
}

}  // namespace
}  // namespace mezzo::cli_tests
