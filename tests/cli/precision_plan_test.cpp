// Tests that every command obeys a precision plan, and refuses one that cannot be obeyed.
#include <algorithm>
#include <fstream>
#include <set>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/models/model.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/ops/arithmetic.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

struct ByPlan : Command {
  // Writes a plan for a model: one operation of each module that `mezzo plan` lists, convolutions
  // and products in that dtype.
  void write_plan(const std::string& file, const std::string& model, const std::string& dtype,
                  const std::string& heading = "") {
    const std::string listed = path("listed.json");
    ASSERT_EQ(run(concat("plan ", model, " --amp O1 --json ", listed)).status, 0);
    std::ofstream out(path(file));
    out << R"({"format": "mezzo precision plan", "version": 1, )" << heading
        << R"("operations": [)";
    std::set<std::pair<std::string, std::string>> seen;
    for (const Json& op : events_of(read_events("listed.json"), "op")) {
      if (op["rule"] == "none" || !seen.emplace(op["path"], op["op"]).second) continue;
      const bool is_lower = op["op"] == "conv2d" || op["op"] == "linear";
      out << (seen.size() > 1 ? ",\n" : "\n")
          << Json{{"module", op["path"]},
                  {"op", op["op"]},
                  {"dtype", is_lower ? dtype : "f32"},
                  {"reason", concat("measured ", seen.size())}};
    }
    out << "]}\n";
  }

  // A plan for LeNet-5.
  std::string plan_in(const std::string& dtype) {
    const std::string name = "plan-" + dtype + ".json";
    write_plan(name, "lenet5", dtype);
    return path(name);
  }
};

TEST_F(ByPlan, PlanShowsEveryOperationInItsDtypeWithItsReason) {
  const std::string plan = plan_in("f16");
  for (const char* mode : {"", " --graph"}) {
    const Outcome outcome = run(concat("plan lenet5 --plan ", plan, mode, " --json ", path("log")));
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    std::size_t planned = 0;
    for (const Json& op : events_of(read_events("log"), "op")) {
      if (op["rule"] != "plan") continue;
      ++planned;
      EXPECT_THAT(op["reason"].get<std::string>(), testing::StartsWith("measured ")) << op;
      const bool is_lower = op["op"] == "conv2d" || op["op"] == "linear";
      EXPECT_EQ(op["dtype"], is_lower ? "f16" : "f32") << op;
    }
    EXPECT_GE(planned, 9U) << mode;
    EXPECT_THAT(outcome.output, HasSubstr("lenet5 at plan "));
    EXPECT_EQ(events_of(read_events("log"), "result").at(0)["plan"], plan);
  }
}

TEST_F(ByPlan, TrainEvalBenchAndCompareObeyIt) {
  const std::string plan = plan_in("bf16");
  const std::string train = concat("train --steps 3 --batch-size 32 --quiet --json ", path("log"),
                                   " --save ", path("weights"), " ");
  const Outcome trained = run(concat(train, "--plan ", plan));
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_EQ(trained.errors, "");
  EXPECT_THAT(trained.output, HasSubstr("lenet5 at plan " + plan + ": accuracy"));
  const std::vector<Json> events = read_events("log");
  for (const Json& event : {events.front(), events.back()}) {
    EXPECT_EQ(event["plan"], plan) << event;
    EXPECT_EQ(event["level"], "auto");
    EXPECT_EQ(event["dtype"], "bf16");
  }
  EXPECT_EQ(steps_of(events).front()["scale"], 1.0) << "bf16 needs no scale";
  // By the rules of O1, which the plan repeats, the numbers are the same.
  ASSERT_EQ(run(concat(train, "--amp O1")).status, 0);
  EXPECT_EQ(steps_of(read_events("log")), steps_of(events));
  EXPECT_TRUE(read_events("log").front()["plan"].is_null());

  const Outcome evaluated =
      run(concat("eval --quiet --weights ", path("weights"), " --plan ", plan));
  EXPECT_EQ(evaluated.status, 0) << evaluated.errors;
  EXPECT_THAT(evaluated.output, HasSubstr("lenet5 at plan " + plan));
  const Outcome timed = run(concat("bench --quiet --steps 1 --warmup 0 --plan ", plan));
  EXPECT_EQ(timed.status, 0) << timed.errors;
  EXPECT_THAT(timed.output, HasSubstr("at plan " + plan));
  const Outcome compared =
      run(concat("compare --levels O0,O1/bf16 --steps 3 --batch-size 32 --quiet ", "--json ",
                 path("compared"), " --plan ", plan));
  ASSERT_EQ(compared.status, 0) << compared.errors;
  EXPECT_THAT(compared.output, HasSubstr("lenet5   plan"));
  const std::vector<Json> runs = read_events("compared");
  const std::vector<Json> starts = events_of(runs, "start");
  ASSERT_EQ(starts.size(), 3U);
  EXPECT_TRUE(starts[0]["plan"].is_null());
  EXPECT_EQ(starts[2]["plan"], plan);
  const std::vector<Json> steps = steps_of(runs);
  ASSERT_EQ(steps.size(), 9U);
  EXPECT_EQ(std::vector<Json>(steps.begin() + 6, steps.end()), steps_of(events));
  const Outcome differs = run(concat("diff O1/bf16 plan:", plan, " --steps 1 --quiet"));
  EXPECT_NE(differs.status, 1) << differs.errors;
}

TEST_F(ByPlan, OneWithF16ScalesTheLoss) {
  const std::string options = concat("train --steps 2 --batch-size 32 --quiet --graph --json ",
                                     path("log"), " --plan ", plan_in("f16"));
  ASSERT_EQ(run(options).status, 0);
  EXPECT_EQ(steps_of(read_events("log")).front()["scale"], 65536.0);
  ASSERT_EQ(run(options + " --loss-scale 128").status, 0);
  EXPECT_EQ(steps_of(read_events("log")).front()["scale"], 128.0);
}

TEST_F(ByPlan, OneWithBothDtypesScalesTheLossWithoutAWarning) {
  std::string text = read_text(fs::path(plan_in("f16")).filename());
  const std::string relu = R"("dtype":"f32","module":"","op":"relu")";
  const std::size_t at = text.find(relu);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, relu.size(), R"("dtype":"bf16","module":"","op":"relu")");
  std::ofstream(path("both.json")) << text;
  const Outcome outcome = run(concat("train --steps 2 --batch-size 32 --quiet --json ", path("log"),
                                     " --plan ", path("both.json")));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(steps_of(read_events("log")).front()["scale"], 65536.0);
  EXPECT_EQ(read_events("log").front()["dtype"], "f16");
}

TEST_F(ByPlan, OneForAnotherNetworkIsRefusedWithTheFirstDifference) {
  const std::string plan = plan_in("bf16");
  for (const std::string command :
       {"train --model mlp --steps 1", "bench --model mlp", "plan mlp", "compare --model mlp"}) {
    const Outcome outcome = run(concat(command, " --plan ", plan));
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_EQ(outcome.output, "") << command;
    EXPECT_EQ(outcome.errors,
              "mezzo: [plan] the plan is for another network: it has `conv1: conv2d`, and this "
              "network has no module `conv1`. Make a plan for this network by `mezzo tune`\n")
        << command;
  }
}

TEST_F(ByPlan, WhatCannotBeReadIsOneClearLine) {
  const std::string file = path("broken.json");
  std::ofstream(file) << "{";
  Outcome outcome = run("train --plan " + file);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.errors,
            concat("mezzo: [plan] ", file,
                   ": is not JSON. A plan is what `mezzo tune --out FILE` writes\n"));
  outcome = run("train --plan " + path("none.json"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr(path("none.json")));
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  outcome = run(concat("train --steps 1 --plan ", file, " --json ", file));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--plan"));
}

TEST_F(ByPlan, OtherOptionsForPrecisionContradictIt) {
  const std::string plan = plan_in("bf16");
  for (const std::string option : {"--amp O2", "--dtype bf16", "--keep-f32 conv1", "--lower relu",
                                   "--keep-batchnorm-fp32 true"}) {
    const std::string name = option.substr(0, option.find(' '));
    for (const std::string command : {"train", "bench", "eval --weights w", "plan lenet5"}) {
      const Outcome outcome = run(concat(command, " --plan ", plan, " ", option));
      EXPECT_EQ(outcome.status, 2) << command << ' ' << option;
      EXPECT_THAT(outcome.errors,
                  testing::AllOf(HasSubstr("`--plan`"), HasSubstr(concat("`", name, "`")),
                                 HasSubstr("contradict each other. Leave one of the two out")));
    }
  }
  const Outcome outcome = run("train --watch-every 3");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.errors,
            "mezzo: [--watch-every] is used only by --plan. Give that, or leave it out\n");
  EXPECT_THAT(run(concat("train --watch-every=-1 --plan ", plan)).errors,
              HasSubstr("[--watch-every] must not be negative: -1"));
}

TEST_F(ByPlan, OneOfAnotherMachineIsObeyedWithAWarning) {
  write_plan("plan.json", "lenet5", "bf16", R"("machine": "Abacus", "threads": 3, )");
  const Outcome outcome =
      run(concat("train --steps 1 --batch-size 32 --quiet --plan ", path("plan.json")));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.errors, testing::MatchesRegex(
                                  "mezzo warning: \\[plan\\] .*plan.json was made on Abacus with 3 "
                                  "threads, and this is .* with [0-9]+ threads?: it is obeyed, "
                                  "but its times are not those of this run\n"));
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1);
}

// Weights with which the first layer's results are too small for f16.
void write_small_weights(const std::string& file) {
  manual_seed(1);
  const auto net = models::create("lenet5", {.in_channels = 1, .image_size = 28});
  for (const NamedTensor& entry : net->named_parameters()) {
    if (entry.name == "conv1.weight") copy_elements(entry.tensor * 1e-4, entry.tensor);
    if (entry.name == "conv1.bias") copy_elements(entry.tensor * 0, entry.tensor);
  }
  io::write_safetensors(file, models::to_weight_file(*net));
}

TEST_F(ByPlan, AWidenedRunIsLoggedAndResumesAsTheUnbrokenRun) {
  write_small_weights(path("small"));
  const std::string options =
      concat("train --batch-size 16 --lr 1e-3 --watch-every 4 --plan ", plan_in("f16"),
             " --weights ", path("small"), " --report ", path("page.html"));
  const Outcome whole =
      run(concat(options, " --steps 12 --json ", path("a"), " --save ", path("whole")));
  ASSERT_EQ(whole.status, 0) << whole.errors;
  const std::vector<Json> widened = events_of(read_events("a"), "plan_widened");
  ASSERT_GE(widened.size(), 1U);
  EXPECT_EQ(widened[0]["step"], 4);
  EXPECT_EQ(widened[0]["module"], "conv1");
  EXPECT_EQ(widened[0]["op"], "conv2d");
  EXPECT_EQ(widened[0]["dtype"], "f16");
  EXPECT_EQ(widened[0]["to"], "f32");
  const auto reason = widened[0]["reason"].get<std::string>();
  EXPECT_THAT(reason, HasSubstr(" % of its results were too small for f16, and none when"));
  EXPECT_THAT(whole.errors, HasSubstr("step 4: `conv1: conv2d` is computed in f32 from now on, not "
                                      "in f16: " +
                                      reason));
  EXPECT_THAT(read_text("page.html"), HasSubstr("After step 4 `conv1: conv2d` is computed in f32"));
  const std::string part = concat(options, " --quiet --checkpoint-every 3 --checkpoint-dir ",
                                  path("run"), " --json ", path("b"), " --save ", path("parts"));
  ASSERT_EQ(run(part + " --steps 7").status, 0);
  ASSERT_EQ(run(part + " --steps 12 --resume --graph").status, 2) << "the level is auto";
  ASSERT_EQ(run(part + " --steps 12 --resume").status, 0);
  EXPECT_EQ(steps_of(read_events("b")), steps_of(read_events("a")));
  EXPECT_EQ(read_text("whole"), read_text("parts"));
}

}  // namespace
}  // namespace mezzo::cli_tests
