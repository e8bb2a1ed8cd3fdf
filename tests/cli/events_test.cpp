// Tests how the `mezzo` command reports its work: in its log, its tables, its report and its event
// files.
#include <cstdlib>
#include <set>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/io/protobuf.h"
#include "mezzo/io/tensorboard_summary.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::ContainsRegex;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Events : public Command {
 protected:
  // All events of a command that succeeds; `output` receives its standard output.
  std::vector<Json> events_of_run(const std::string& arguments) {
    const Outcome outcome = run(concat(arguments, " --quiet --json ", path("log")));
    EXPECT_EQ(outcome.status, 0) << arguments << "\n" << outcome.errors;
    output = outcome.output;
    std::vector<Json> events = read_events("log");
    if (events.empty()) events.push_back(Json::object());
    return events;
  }

  // The only event file of a folder.
  std::string event_file(const std::string& folder) const {
    return read_text(
        concat(folder, "/", fs::directory_iterator(path(folder))->path().filename().string()));
  }

  std::string output;
};

// A field's value in every event of a kind, in order.
std::vector<Json> values_of(const std::vector<Json>& events, const std::string& kind,
                            const std::string& name) {
  std::vector<Json> values;
  for (const Json& event : events_of(events, kind)) values.push_back(event[name]);
  return values;
}

TEST_F(Events, StartHasTheOptionsThatWereGiven) {
  const std::string a_step = "train --model mlp --steps 1 --batch-size 500 ";
  const Json start = events_of_run(a_step +
                                   "--threads 2 --keep-f32 fc1 --lower add,relu "
                                   "--momentum 0.5 --weight-decay 0.25 --loss-scale dynamic")
                         .front();
  EXPECT_EQ(start["threads"], 2);
  EXPECT_EQ(start["keep_f32"], Json({"fc1"}));
  EXPECT_EQ(start["lower"], Json({"add", "relu"}));
  EXPECT_EQ(start["steps"], 1);
  EXPECT_EQ(start["momentum"], 0.5);
  EXPECT_EQ(start["weight_decay"], 0.25);
  EXPECT_EQ(start["loss_scale"], "dynamic");
  EXPECT_EQ(start["image_size"], 28) << "the data's own";
  EXPECT_EQ(start["shuffle"], true);
  const Json climbing =
      events_of_run(a_step +
                    "--no-shuffle --lr-schedule half-cosine --lr-end 0.002 "
                    "--warmup-epochs 0.5 --lr-init 0.003 --dtype f16 --loss-scale none")
          .front();
  EXPECT_EQ(climbing["lr_end"], 0.002);
  EXPECT_EQ(climbing["lr_init"], 0.003);
  EXPECT_EQ(climbing["warmup_epochs"], 0.5);
  EXPECT_EQ(climbing["shuffle"], false);
  const Json& half_cosine = climbing["options"];
  EXPECT_EQ(half_cosine["--lr-schedule"], "half-cosine");
  EXPECT_EQ(half_cosine["--lr-end"], "0.002");
  EXPECT_EQ(half_cosine["--lr-init"], "0.003");
  EXPECT_EQ(half_cosine["shuffling"], "off");
  EXPECT_EQ(half_cosine["--loss-scale"], "none");
  const Json exponential =
      events_of_run(a_step + "--lr-schedule exponential --lr-gamma 0.5").front();
  EXPECT_EQ(exponential["lr_gamma"], 0.5);
  EXPECT_EQ(exponential["options"]["--lr-gamma"], "0.5");
  EXPECT_EQ(exponential["options"]["shuffling"], "on");
  EXPECT_EQ(exponential["options"]["--image-size"], "28");
  const Json bench = events_of_run(
                         "bench --model resnet20 --image-size 16 --recompute layer?.? "
                         "--warmup 0 --steps 1 --batch-size 2")
                         .front();
  EXPECT_EQ(bench["image_size"], 16);
  EXPECT_EQ(bench["recompute"], Json({"layer?.?"}));
}

// Settings that the optimizer does not read are null, and the others have its defaults.
TEST_F(Events, StartHasTheSettingsOfTheOptimizer) {
  const auto start_of = [this](const std::string& optimizer) {
    fs::remove(path("log"));
    return events_of_run("train --model mlp --steps 1 --optimizer " + optimizer).front();
  };
  const Json lion = start_of("lion --weight-decay 0.1");
  EXPECT_EQ(lion["optimizer"], "lion");
  EXPECT_EQ(lion["lr"], 1e-4);
  EXPECT_EQ(lion["betas"], Json::array({0.9, 0.99}));
  EXPECT_EQ(lion["momentum"], nullptr);
  EXPECT_EQ(lion["eps"], nullptr);
  EXPECT_EQ(lion["weight_decay"], 0.1);
  const Json rmsprop = start_of("rmsprop --momentum 0.5");
  EXPECT_EQ(rmsprop["optimizer"], "rmsprop");
  EXPECT_EQ(rmsprop["lr"], 0.01);
  EXPECT_EQ(rmsprop["betas"], nullptr);
  EXPECT_EQ(rmsprop["momentum"], 0.5);
  EXPECT_EQ(rmsprop["eps"], 1e-8);
}

TEST_F(Events, StepsHaveTheScaleThatTheyUsed) {
  const std::vector<Json> events =
      events_of_run("train --model mlp --dtype f16 --lr 100 --steps 4 --batch-size 16");
  EXPECT_THAT(values_of(events, "step", "scale"), ElementsAre(65536, 65536, 32768, 16384));
  EXPECT_THAT(values_of(events, "step", "skipped"), ElementsAre(false, true, true, true));
  EXPECT_THAT(values_of(events, "step", "found_inf"), ElementsAre(false, true, true, true));
  EXPECT_THAT(values_of(events, "step", "lr"), Each(100));
  EXPECT_EQ(events.back()["skipped_steps"], 3);
  EXPECT_THAT(output, HasSubstr(", 3 steps skipped\n"));
}

// An epoch's line has the scale of its last step and the number of its own skipped steps.
TEST_F(Events, AnEpochsLineHasTheScaleAndWhatWasSkipped) {
  const std::string train = "train --model mlp --batch-size 5000 --epochs 2 ";
  const Outcome scaled = run(train + "--dtype f16 --loss-scale 1e30");
  EXPECT_THAT(scaled.errors, ContainsRegex("epoch 1: .*, scale 1e\\+30, 2 steps skipped, "));
  EXPECT_THAT(scaled.errors, ContainsRegex("epoch 2: .*, scale 1e\\+30, 2 steps skipped, "));
  EXPECT_THAT(scaled.output, HasSubstr(", 4 steps skipped\n"));
  const Outcome plain = run(train);
  EXPECT_THAT(plain.errors, HasSubstr("epoch 2: "));
  EXPECT_THAT(plain.errors, Not(HasSubstr(", scale ")));
  EXPECT_THAT(plain.errors, Not(HasSubstr(" skipped")));
}

TEST_F(Events, ALossThatIsNotFiniteIsFound) {
  const std::vector<Json> events =
      events_of_run("train --model mlp --lr 1e30 --steps 2 --batch-size 500");
  EXPECT_THAT(values_of(events, "step", "loss").back(), nullptr);
  EXPECT_THAT(values_of(events, "step", "found_inf"), ElementsAre(false, true));
  // The non-finite loss is not part of the mean.
  EXPECT_EQ(events_of(events, "epoch").front()["train_loss"],
            values_of(events, "step", "loss").front());
}

TEST_F(Events, EpochsHaveTheMeanLossOfTheirSteps) {
  write_cifar10(folder_);
  const std::vector<Json> events =
      events_of_run("train --model mlp --batch-size 4 --epochs 2 --data cifar10:" + path(""));
  ASSERT_THAT(values_of(events, "step", "epoch"), ElementsAre(1, 1, 1, 1, 1, 2, 2, 2, 2, 2));
  for (const Json& epoch : events_of(events, "epoch")) {
    double sum = 0;
    for (const Json& step : steps_of(events)) {
      if (step["epoch"] == epoch["epoch"]) sum += step["loss"].get<double>();
    }
    EXPECT_DOUBLE_EQ(epoch["train_loss"], sum / 5);
  }
  const Json& result = events.back();
  EXPECT_EQ(events_of(events, "epoch").back()["loss"], result["loss"]);
  EXPECT_LE(result["step_ms_min"], result["step_ms_median"]);
  EXPECT_LE(result["step_ms_median"], result["step_ms_max"]);
  EXPECT_LT(result["step_ms_min"], result["step_ms_max"]);
  double waited = 0;
  for (const Json& event : events) {
    if (event["event"] == "step") waited += event["wait_ms"].get<double>();
  }
  EXPECT_DOUBLE_EQ(result["wait_ms"], waited / 10);
  const double percent = 100 * result["accuracy"].get<double>();
  EXPECT_THAT(output, HasSubstr(concat("accuracy ", percent)));
}

TEST_F(Events, EvalJudgesAtTheLevelThatItIsTold) {
  const std::string net = " --model mlp --amp O0 --batch-size 500";
  const Json trained = events_of_run("train --steps 1 --save " + path("w") + net).back();
  const std::string in_one_batch =
      "eval --weights " + path("w") + " --model mlp --batch-size 10000 --amp ";
  const Json judged = events_of_run(in_one_batch + "O0").back();
  EXPECT_EQ(judged["accuracy"], trained["accuracy"]);
  EXPECT_DOUBLE_EQ(judged["images_per_s"].get<double>() * judged["step_ms_median"].get<double>(),
                   1000 * judged["images"].get<double>());
  EXPECT_NE(events_of_run(in_one_batch + "O2").back()["loss"], judged["loss"]);
}

TEST_F(Events, ComparedLevelsHaveDtypesAndOptionsOfTheirOwn) {
  write_cifar10(folder_);
  const std::vector<Json> events = events_of_run(
      "compare --model mlp --levels O0,O3,O2/f16 --dtype bf16 --keep-batchnorm-fp32 false "
      "--batch-size 4 --steps 6 --data cifar10:" +
      path(""));
  EXPECT_THAT(values_of(events, "result", "dtype"), ElementsAre("f32", "bf16", "f16"));
  EXPECT_THAT(values_of(events, "result", "epochs"), Each(2));
  EXPECT_THAT(output, testing::ContainsRegex("\nmlp +O3 +bf16 +[0-9.]+ +[0-9]+ +2 +[0-9.]+ MB"));
}

TEST_F(Events, APlansTotalsAreThoseOfItsOperations) {
  ASSERT_EQ(run("plan lenet5 --amp O2 --json " + path("log")).status, 0);
  const std::vector<Json> events = read_events("log");
  std::size_t in_f32 = 0;
  std::size_t shared = 0;
  for (const Json& op : events_of(events, "op")) {
    in_f32 += op["dtype"] == "f32" ? 1 : 0;
    for (const Json& cast : op["casts"]) shared += cast["shared"] ? 1 : 0;
  }
  EXPECT_EQ(events.back()["ops_f32"], in_f32);
  EXPECT_EQ(events.back()["shared_casts"], shared);
}

// A row is for one step, whatever the number of timed steps.
TEST_F(Events, AProfileIsOfOneStep) {
  const auto calls = [&](int steps) {
    std::set<std::string> rows;
    double ms = 0;
    const std::vector<Json> events =
        events_of_run(concat("bench --model mlp --batch-size 500 --profile --steps ", steps));
    for (const Json& event : events) {
      if (event["event"] != "profile") continue;
      ms += event["ms"].get<double>();
      rows.insert(concat(event["phase"].dump(), event["op"].dump(), event["kernel"].dump(),
                         event["calls"].dump()));
    }
    EXPECT_LE(ms, events.back()["step_ms_max"]);
    return rows;
  };
  EXPECT_EQ(calls(1), calls(8));
}

// The bytes of an event after its time.
std::string scalar_at(std::int64_t step, std::string_view tag, double value) {
  const std::string scalar = io::scalar_value(tag, static_cast<float>(value));
  return io::ProtoMessage().integer(2, step).message(5, io::ProtoMessage().text(1, scalar)).bytes();
}

TEST_F(Events, EventFilesHoldWhatTheLogHolds) {
  const std::string options =
      "train --dtype f16 --lr 100 --batch-size 16 "
      "--checkpoint-dir " +
      path("run");
  const std::vector<Json> events = events_of_run(options + " --steps 3 --logdir " + path("first"));
  const std::string file = event_file("first");
  for (const Json& step : steps_of(events)) {
    const std::int64_t number = step["step"];
    EXPECT_THAT(file, HasSubstr(scalar_at(number, "train/loss", step["loss"])));
    EXPECT_THAT(file, HasSubstr(scalar_at(number, "train/lr", step["lr"])));
    EXPECT_THAT(file, HasSubstr(scalar_at(number, "train/scale", step["scale"])));
    EXPECT_THAT(file, HasSubstr(scalar_at(number, "train/skipped", step["skipped"] ? 1 : 0)));
  }
  EXPECT_THAT(file, HasSubstr(scalar_at(3, "test/loss", events.back()["loss"])));
  EXPECT_THAT(file, HasSubstr(scalar_at(3, "test/accuracy", events.back()["accuracy"])));
  // Events after the checkpoint, from step 4 on, are taken back.
  events_of_run(options + " --steps 4 --resume --logdir " + path("second"));
  const std::string begin = io::resume_event(0, 4).substr(9);  // after the time
  EXPECT_THAT(event_file("second"), HasSubstr(begin));
}

TEST_F(Events, HistogramsAreInTheLogAndTheEventFiles) {
  const std::vector<Json> events = events_of_run(
      "train --model mlp --amp O2/f16 --steps 3 --batch-size 16 --histogram-every 2 --logdir " +
      path("log-of-events"));
  std::set<std::string> of;
  std::set<std::string> names;
  for (const Json& event : events_of(events, "histogram")) {
    of.insert(event["of"]);
    EXPECT_EQ(event["passes"], 2);
    for (const char* format : {"f16", "bf16", "e4m3", "e5m2"}) {
      EXPECT_GE(event[format]["zero"], 0.0);
      EXPECT_LE(event[format]["lost_weight"], 1.0);
    }
    if (event["of"] == "activation")
      names.insert(event["path"].get<std::string>() + ": " + event["op"].get<std::string>());
  }
  EXPECT_EQ(of, (std::set<std::string>{"activation", "gradient", "weight"}));
  EXPECT_THAT(names, testing::Contains("fc1: linear"));
  const std::string file = event_file("log-of-events");
  EXPECT_THAT(file, HasSubstr("activations/fc1/linear"));
  EXPECT_THAT(file, HasSubstr("weights/fc1.weight"));
  EXPECT_EQ(events.back()["event"], "result");
}

TEST_F(Events, WithoutBeingAskedForThereAreNoHistograms) {
  const std::vector<Json> events =
      events_of_run("train --model mlp --steps 1 --batch-size 16 --logdir " + path("events"));
  EXPECT_TRUE(events_of(events, "histogram").empty());
  EXPECT_THAT(event_file("events"), Not(HasSubstr("activations/")));
}

TEST_F(Events, AReportSaysWhatHappened) {
  const std::string options = "train --model mlp --dtype f16 --batch-size 16 --checkpoint-dir " +
                              path("run") + " --report " + path("page");
  std::vector<Json> events = events_of_run(options + " --loss-scale 1e30 --steps 2");
  const std::string overflows = read_text("page");
  const std::string culprit = events_of(events, "step").front()["first_bad"];
  EXPECT_NE(culprit, "");
  EXPECT_THAT(overflows, HasSubstr("fixed, from 1.00000001"));
  EXPECT_THAT(overflows, HasSubstr("the gradient of " + culprit + " was not finite"));
  EXPECT_THAT(overflows, HasSubstr("<h3>Loss scale</h3>"));
  // Ten digits, if each picture has its own caption.
  std::set<std::string> captions;
  for (std::size_t at = 0; (at = overflows.find("<figcaption>", at)) != std::string::npos; ++at) {
    captions.insert(overflows.substr(at, 16));
  }
  EXPECT_GT(captions.size(), 3U);
  events_of_run(options + " --loss-scale 1e30 --steps 3 --resume");
  EXPECT_THAT(read_text("page"), HasSubstr("3: the 2 steps"));
  fs::remove_all(path("run"));
  events_of_run(options + " --loss-scale dynamic --lr 1e30 --steps 2");
  const std::string diverges = read_text("page");
  EXPECT_THAT(diverges, HasSubstr("dynamic, from 65536"));
  EXPECT_THAT(diverges, HasSubstr("In the first of them, step 2, the loss was not finite"));
}

// Runs a shell that ignores the signal, as nohup does for another: the run continues to its end.
TEST_F(Events, ASignalThatWasIgnoredStaysIgnored) {
  const std::string script =
      concat("trap '' TERM; ", MEZZO_COMMAND, " train --model mlp --steps 2000 --batch-size 16 ",
             "--quiet --json ", path("log"), " >/dev/null 2>&1 & pid=$!; until grep -q '\"step\"' ",
             path("log"), " 2>/dev/null; do sleep 0.02; done; kill -TERM $pid; wait $pid");
  EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 0);
  EXPECT_EQ(read_events("log").back()["event"], "result");
}

}  // namespace
}  // namespace mezzo::cli_tests
