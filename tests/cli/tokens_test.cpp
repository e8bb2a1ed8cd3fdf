// Tests the commands with models that read tokens.
#include <gmock/gmock.h>

#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

struct Tokens : Command {
  Json event(const std::string& arguments, const char* kind) {
    const Outcome outcome = run(arguments + " --json " + path("log"));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return events_of(read_events("log"), kind).front();
  }
};

TEST_F(Tokens, BenchCountsSequencesAndTokens) {
  const std::string bench =
      "bench --model gpt-tiny --tokens 16 --batch-size 2 --steps 1 --warmup 1 --quiet";
  const Outcome outcome = run(bench);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("gpt-tiny 16 tokens at O2/bf16, batch 2\n"));
  EXPECT_THAT(outcome.output, HasSubstr(" sequences/s, "));
  EXPECT_THAT(outcome.output, HasSubstr(" tokens/s\n"));
  const Json start = event(bench, "start");
  EXPECT_EQ(start["tokens"], 16);
  EXPECT_FALSE(start.contains("image_size"));
  const Json result = event(bench, "result");
  EXPECT_DOUBLE_EQ(result["tokens_per_s"].get<double>(), 16 * result["images_per_s"].get<double>());
}

// What the stream of the layers is computed in, and why.
TEST_F(Tokens, PlanShowsTheResidualStream) {
  const Json add = [&] {
    const Outcome outcome = run("plan gpt-tiny --tokens 8 --json " + path("log"));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    for (const Json& op : events_of(read_events("log"), "op")) {
      if (op["op"] == "add_residual" && op["path"] == "h.1") return op;
    }
    return Json();
  }();
  EXPECT_EQ(add["dtype"], "f32");
  EXPECT_EQ(add["rule"], "keep");
  // In graph mode, where a sum between products would otherwise be painted.
  const Outcome painted = run("plan gpt-tiny --tokens 8 --graph --amp auto --json " + path("log"));
  EXPECT_EQ(painted.status, 0) << painted.errors;
  std::size_t sums = 0;
  for (const Json& op : events_of(read_events("log"), "op")) {
    if (op["op"] != "add_residual") continue;
    EXPECT_EQ(op["dtype"], "f32") << op["path"];
    ++sums;
  }
  EXPECT_EQ(sums, 13);  // that of the positions, and two in each layer
  const Outcome graph = run("plan gpt-tiny --tokens 8 --graph");
  EXPECT_EQ(graph.status, 0) << graph.errors;
  EXPECT_THAT(graph.output, HasSubstr("on 2 sequences of 8 tokens\n"));
}

TEST_F(Tokens, CommandsSayWhatTheyNeed) {
  for (const char* command : {"train --model text-lstm --steps 1", "compare --model text-lstm",
                              "eval --model text-lstm --weights w"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_THAT(outcome.errors,
                HasSubstr("text-lstm classifies sequences, and the data sets here"));
  }
  EXPECT_THAT(run("bench --model gpt-tiny --image-size 32").errors, HasSubstr("Use --tokens"));
  EXPECT_THAT(run("plan lenet5 --tokens 32").errors, HasSubstr("Use --image-size"));
}

TEST_F(Tokens, ExportTakesTheLengthOfSequences) {
  const Outcome outcome = run("export --model text-lstm --tokens 8 --out " + path("net.onnx"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("text-lstm for sequences [N, 8], "));
}

TEST_F(Tokens, VisionTransformersTrain) {
  const std::string train =
      "train --model vit_ti_16 --data shapes --image-size 16 --batch-size 32 --steps 1 --quiet "
      "--save ";
  const Outcome outcome = run(train + path("vit.safetensors"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const Outcome eval = run("eval --model vit_ti_16 --data shapes --image-size 16 --weights " +
                           path("vit.safetensors"));
  EXPECT_EQ(eval.status, 0) << eval.errors;
}

}  // namespace
}  // namespace mezzo::cli_tests
