// Tests `mezzo plan --graph`: a captured training step as text, JSON lines and picture.
#include <algorithm>
#include <map>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"
#include "tests/unit/graph/dot_text.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

struct PlanGraph : Command {
  std::vector<Json> events_for(const std::string& arguments) {
    outcome = run("plan " + arguments + " --graph --json " + path("plan.json"));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    std::vector<Json> events = read_events("plan.json");
    if (events.empty()) events.push_back(Json::object());
    return events;
  }
  Json result_for(const std::string& arguments) { return events_for(arguments).back(); }

  Outcome outcome;
};

TEST_F(PlanGraph, SaysWhatTheStepConsistsOf) {
  const std::vector<Json> events = events_for("lenet5 --amp O2 --dtype bf16");
  for (const char* text :
       {"A training step of lenet5 at O2/bf16 on 2 images of 1x28x28", "it gains from 16 bits",
        "common_subexpressions", "host work", "converted ", "arena", "eager"}) {
    EXPECT_THAT(outcome.output, HasSubstr(text));
  }
  const Json& op = events.front();
  EXPECT_EQ(op["event"], "op");
  EXPECT_EQ(op["path"], "conv1");
  EXPECT_EQ(op["op"], "conv2d");
  EXPECT_EQ(op["dtype"], "bf16");
  EXPECT_EQ(op["colour"], "white");
  EXPECT_EQ(op["reason"], "it gains from 16 bits");
  const std::vector<Json> passes = events_of(events, "pass");
  ASSERT_GE(passes.size(), 4U);
  EXPECT_EQ(passes.front()["pass"], "paint_precision");
  const Json& result = events.back();
  EXPECT_EQ(result["event"], "result");
  EXPECT_EQ(result["ops"], events_of(events, "op").size());
  EXPECT_EQ(result["nodes"], passes.back()["nodes_after"]);
  EXPECT_EQ(result["parameters"], 10);
  EXPECT_EQ(result["inputs"], 2);
  EXPECT_EQ(result["parameter_bytes"], 4 * 61706);
  EXPECT_EQ(result["host_work"]["take_loss"], 1);
  EXPECT_GE(result["state_bytes"], result["parameter_bytes"]);
  EXPECT_LE(result["least_bytes"], result["arena_bytes"]);
  EXPECT_LE(result["least_bytes"], result["eager_bytes"]);
  EXPECT_GT(result["nodes_backward"], 0);
}

// Rules by path and operation, for operations that both commands name alike.
std::map<std::string, std::string> rules_of(const std::vector<Json>& events) {
  std::map<std::string, std::string> rules;
  for (const Json& event : events_of(events, "op")) {
    rules[concat(event["path"].get<std::string>(), " ", event["op"].get<std::string>())] =
        event["rule"];
  }
  return rules;
}

TEST_F(PlanGraph, TheRulesAreThoseOfTheForwardPass) {
  for (const char* options :
       {"--amp O0", "--amp O1", "--amp O2 --dtype f16", "--amp O3",
        "--amp auto --keep-f32 relu,fc3 --lower max_pool2d", "--amp O3 --keep-f32 conv1,linear"}) {
    const auto in_graph = rules_of(events_for(concat("lenet5 ", options)));
    ASSERT_EQ(run(concat("plan lenet5 ", options, " --json ", path("eager.json"))).status, 0);
    for (const auto& [call, rule] : rules_of(read_events("eager.json"))) {
      if (call.ends_with(" cast")) continue;  // the graph counts casts separately
      ASSERT_TRUE(in_graph.contains(call)) << call << " with " << options;
      EXPECT_EQ(in_graph.at(call), rule) << call << " with " << options;
    }
  }
}

TEST_F(PlanGraph, NothingIsCastAtO0) {
  const Json result = result_for("resnet20 --amp O0");
  EXPECT_EQ(result["casts"], 0);
  EXPECT_EQ(result["parameter_casts"], 0);
  EXPECT_EQ(result["ops_lower"], 0);
  EXPECT_THAT(outcome.output, HasSubstr("converted none of "));
}

// The images are cast, and nothing after them: the loss reads 16-bit logits, as in a run.
TEST_F(PlanGraph, ResNet50StaysIn16BitsAtO2) {
  const Json result = result_for("resnet50 --amp O2 --dtype bf16 --image-size 64");
  EXPECT_EQ(result["casts"], 1);
  EXPECT_EQ(result["parameter_casts"], 54) << "53 convolutions and a fully connected layer";
  EXPECT_GT(result["arena_bytes"], 0);
}

// f16 is trained with a loss scale, so it has more host work and a scaling operation.
TEST_F(PlanGraph, TheScalerIsThatOfTheDtype) {
  const Json f16 = result_for("lenet5 --amp O2 --dtype f16");
  EXPECT_GT(f16["nodes"], result_for("lenet5 --amp O2 --dtype bf16")["nodes"]);
}

TEST_F(PlanGraph, WritesAPictureAndTheProgram) {
  result_for("resnet20 --amp auto --dtype f16 --batch-size 3 --dot " + path("step.dot") +
             " --text " + path("step.txt"));
  const graph::DotText picture(read_text("step.dot"));
  EXPECT_EQ(picture.clusters.size(), 3U);
  EXPECT_GT(picture.edges.size(), 100U);
  const std::string text = read_text("step.txt");
  EXPECT_THAT(text, HasSubstr("program(input0: f32[3, 3, 32, 32]"));
  EXPECT_THAT(text, HasSubstr("state layer1.0.conv1.weight: f32"));
}

TEST_F(PlanGraph, ThePlanOfTheForwardPassIsWhatItWas) {
  ASSERT_EQ(run("plan lenet5 --json " + path("plan.json")).status, 0);
  EXPECT_FALSE(read_events("plan.json").back().contains("nodes"));
}

TEST_F(PlanGraph, WrongInputGetsOneClearLineAndStatus2) {
  const std::pair<std::string, const char*> cases[] = {
      {"plan lenet5 --dot " + path("a.dot"), "[--dot] writes the captured training step"},
      {"plan lenet5 --text " + path("a.txt"), "Add --graph"},
      {"plan lenet5 --graph --batch-size 0", "--batch-size"},
      {"plan lenet5 --graph --dot /no/such/folder/a.dot", "/no/such/folder/a.dot"},
      {"plan lenet6 --graph", "lenet6"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome wrong = run(arguments);
    EXPECT_EQ(wrong.status, 2) << arguments;
    EXPECT_THAT(wrong.errors, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(wrong.errors.begin(), wrong.errors.end(), '\n'), 1) << wrong.errors;
    EXPECT_EQ(wrong.output, "") << arguments;
  }
  EXPECT_FALSE(fs::exists(path("a.dot")));
}

}  // namespace
}  // namespace mezzo::cli_tests
