// Tests files that the command line names twice.
#include <gmock/gmock.h>

#include "mezzo/core/error.h"
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
           concat("eval --weights ", path("w"), " --logits ", by_a_detour),
           concat("eval --weights ", path("w"), " --logits ", path("linked")),
           concat("export --weights ", path("w"), " --out ", path("w")),
           concat("train --steps 1 --weights ", path("w"), " --report ", path("w")),
           concat("train --steps 1 --class-weights ", path("w"), " --save ", by_a_detour),
           concat("train --steps 1 --class-weights ", path("w"), " --json ", path("linked")),
           concat("train --steps 1 --json ", new_file, " --save ", new_by_a_detour),
           concat("train --steps 1 --json ", new_file, " --report ", new_file),
           concat("compare --steps 1 --json ", new_file, " --report ", new_file),
           concat("plan --graph --dot ", new_file, " --text ", new_file),
           concat("plan --graph --dot ", new_file, " --json ", new_file),
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

TEST_F(Command, NoFileTakesThePlaceOfAFolder) {
  const std::string place = path("place");
  for (const std::string& arguments : {
           concat("train --steps 1 --checkpoint-dir ", place, " --json ", place),
           concat("train --steps 1 --checkpoint-dir ", place, "/run --save ", path("./place")),
           concat("train --steps 1 --logdir ", place, "/ --report ", place),
           concat("compare --steps 1 --logdir ", place, " --json ", place),
       }) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(": is the folder of --")) << arguments;
    EXPECT_FALSE(fs::exists(place)) << arguments;
  }
  const std::string within = "train --steps 1 --checkpoint-dir " + place + " --logdir " + place;
  EXPECT_EQ(run(within + " --json " + place + "/log --save " + place + "/w").status, 2)
      << "there is no such folder yet";
  fs::create_directory(place);
  EXPECT_EQ(run(within + " --json " + place + "/log --save " + place + "/w").status, 0);
}

TEST_F(Command, NoFileIsWrittenIntoACheckpoint) {
  ASSERT_EQ(run("train --steps 1 --checkpoint-dir " + path("run")).status, 0);
  const std::string in_checkpoint = path("run/000001-step-1/");
  const std::string weights = " --weights " + path("run");
  for (const std::string& arguments : {
           concat("eval --logits ", in_checkpoint, "model.safetensors", weights),
           concat("eval --json ", in_checkpoint, "log", weights),
           concat("export --out ", in_checkpoint, "manifest.json", weights),
           concat("train --steps 1 --save ", in_checkpoint, "model.safetensors", weights),
           concat("train --steps 1 --report ", in_checkpoint, "page", weights),
           concat("plan lenet5 --json ", in_checkpoint, "manifest.json"),
           concat("plan lenet5 --graph --text ", in_checkpoint, "manifest.json"),
           concat("plan lenet5 --graph --dot ", in_checkpoint, "manifest.json"),
       }) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(": lies in a checkpoint")) << arguments;
  }
  EXPECT_EQ(run("eval --logits " + path("run/logits.npy") + weights).status, 0);
}

TEST_F(Command, NoFileOfTheDataIsReplaced) {
  write_cifar10(folder_);
  const std::string batch = path("test_batch.bin");
  const std::string before = read_text("test_batch.bin");
  const std::string data = " --model mlp --data cifar10:" + path("");
  ASSERT_EQ(run("train --batch-size 4 --steps 1 --save " + path("w") + data).status, 0);
  for (const std::string& arguments :
       {"train --steps 1 --save " + batch, "compare --steps 1 --report " + batch,
        "eval --weights " + path("w") + " --logits " + batch}) {
    const Outcome outcome = run(arguments + data);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr("a file of --data")) << arguments;
    EXPECT_EQ(read_text("test_batch.bin"), before) << arguments;
  }
}

TEST_F(Command, WeightsMayBeSavedWhereTheyCameFrom) {
  ASSERT_EQ(run("train --steps 1 --save " + path("w")).status, 0);
  const std::string before = read_text("w");
  EXPECT_EQ(run("train --steps 1 --weights " + path("w") + " --save " + path("w")).status, 0);
  EXPECT_NE(read_text("w"), before);
}

}  // namespace
}  // namespace mezzo::cli_tests
