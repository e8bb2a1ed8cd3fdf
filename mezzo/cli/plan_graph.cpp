#include "mezzo/cli/plan_graph.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "mezzo/cli/events.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/plan_table.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"
#include "mezzo/graph/dot.h"
#include "mezzo/graph/report.h"
#include "mezzo/graph/text.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/nn/freeze.h"
#include "mezzo/ops/cast.h"
#include "mezzo/train/example.h"
#include "mezzo/train/optimizer_of.h"
#include "mezzo/train/trainer.h"

namespace mezzo::cli {
namespace {

using graph::GraphReport;
using graph::Phase;

// With a single image, batch norm has nothing to normalise where a map is one pixel.
constexpr std::int64_t kDefaultExamples = 2;

void write_text(const std::string& path, const std::string& text) {
  if (!path.empty()) io::write_file(path, std::as_bytes(std::span(text)), "plan");
}

struct CapturedStep {
  std::unique_ptr<nn::Module> net{};
  train::ExampleKind example{};
  std::int64_t count = 0;  // examples
  GraphReport report{};
  std::string dot{};  // empty unless requested
  std::string text{};
};

// Captures the step of train::run() without running it.
CapturedStep capture_step(const PlanOptions& options, const train::RunOptions& run) {
  const train::ExampleKind example = train::usual_example(run);
  auto net = train::make_model(run, example.shape, example.classes);
  const amp::Policy policy = train::apply_precision(*net, run, example.shape);
  const auto optimizer = train::make_optimizer(*net, run.optimizer).optimizer;
  amp::TrainStep step(*net, train::training_loss(run), *optimizer,
                      train::make_scaler(run.loss_scale, run.policy), {.policy = policy});
  const std::int64_t count = options.batch_size.value_or(kDefaultExamples);
  CapturedStep captured{.example = example, .count = count};
  step.set_execution(
      [&](const amp::StepBody& body, const amp::StepMode& /*mode*/, std::span<const Tensor> batch) {
        const auto call = [&](std::span<const Tensor> tensors) {
          body(tensors);
          return std::vector<Tensor>{};
        };
        const graph::CompileOptions compile{.networks = {net.get()}};
        const graph::StepPrograms programs = graph::capture_programs(call, batch, compile);
        captured.report = graph::report_on(programs);
        explain_by(run.plan.get(), captured.report.calls);
        if (!options.dot.empty()) captured.dot = graph::to_dot(programs.improved);
        if (!options.text.empty()) captured.text = graph::to_text(programs.improved);
      });
  const Tensor input = train::zero_examples(example.shape, count, kCpuDevice);
  // The labels of a language model have the shape of its tokens.
  const Tensor labels = zeros(example.predicts_tokens ? input.shape() : Shape{count}, DType::kI64);
  step(example.is_tokens() ? input : to_format(input, Format::kChannelsLast), labels);
  captured.net = std::move(net);
  return captured;
}

Json event_of(const graph::PaintedCall& call) {
  return {{"event", "op"},        {"path", call.path},
          {"op", call.op},        {"dtype", name_of(call.dtype)},
          {"rule", call.rule},    {"colour", call.colour},
          {"reason", call.reason}};
}

Json event_of(const graph::PassRecord& pass) {
  return {{"event", "pass"},
          {"pass", pass.name},
          {"changes", pass.changes},
          {"nodes_before", pass.nodes_before},
          {"nodes_after", pass.nodes_after},
          {"casts_before", pass.casts_before},
          {"casts_after", pass.casts_after},
          {"ms", pass.ms}};
}

Json counts_of(const std::vector<graph::NamedCount>& counts) {
  Json result = Json::object();
  for (const auto& [name, count] : counts) result[name] = count;
  return result;
}

Json totals_of(const train::RunOptions& run, const CapturedStep& captured) {
  const GraphReport& report = captured.report;
  Json event = begin_result(run);
  event.update(frozen_fields(*captured.net));
  event.update(size_fields(captured.example));
  event.update({{"graph", true},
                {"batch_size", captured.count},
                {"ops", report.paint.ops},
                {"ops_lower", report.paint.ops_lower},
                {"ops_f32", report.paint.ops_f32},
                {"casts", report.paint.casts},
                {"parameter_casts", report.paint.parameter_casts},
                {"nodes", report.nodes}});
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    event[fmt::format("nodes_{}", name_of(phase))] =
        report.nodes_in_phase[static_cast<std::size_t>(phase)];
  }
  event["calls"] = counts_of(report.ops);
  event["host_work"] = counts_of(report.host_work);
  event["inputs"] = report.inputs;
  event["parameters"] = report.parameters;
  event["other_states"] = report.other_states;
  event["arena_bytes"] = report.memory.arena;
  event["least_bytes"] = report.memory.least;
  event["eager_bytes"] = report.memory.eager;
  event["parameter_bytes"] = report.memory.parameters;
  event["parameter_copy_bytes"] = report.memory.parameter_copies;
  event["state_bytes"] = report.memory.states;
  return event;
}

void print_calls(const GraphReport& report, bool wide) {
  std::vector<PlanRow> rows;
  for (const graph::PaintedCall& call : report.calls) {
    rows.push_back({.path = call.path,
                    .op = call.op,
                    .dtype = name_of(call.dtype),
                    .rule = call.rule,
                    .reason = call.reason});
  }
  write_out("{}\n", plan_table(rows, wide));
}

// `batch_norm_grad 53, conv2d_grad 53, ... and 9 others`
std::string most_frequent(const std::vector<graph::NamedCount>& counts) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, counts.size()); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", counts[i].name, counts[i].count);
  }
  if (counts.size() > kShown) {
    text += fmt::format(", {} other {}", counts.size() - kShown,
                        counts.size() == kShown + 1 ? "kind" : "kinds");
  }
  return text;
}

void print_counts(const GraphReport& report) {
  std::string phases;
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    phases += fmt::format("{}{} {}", phases.empty() ? "" : ", ", name_of(phase),
                          report.nodes_in_phase[static_cast<std::size_t>(phase)]);
  }
  const auto print = [](const char* name, const std::string& text) {
    constexpr std::size_t kIndent = 11;
    write_out("{:<{}}{}\n", name, kIndent, wrap(text, kPlanWidth, kIndent));
  };
  const auto counts = [](const std::vector<graph::NamedCount>& all) {
    return fmt::format("{}: {}", graph::total(all), most_frequent(all));
  };
  print("nodes", fmt::format("{}: {}", report.nodes, phases));
  print("calls", counts(report.ops));
  print("host work", counts(report.host_work));
  print("reads", fmt::format("inputs {}, parameters {}, other tensors {}", report.inputs,
                             report.parameters, report.other_states));
  write_out("\n");
}

void print_passes(const GraphReport& report) {
  std::vector<std::vector<std::string>> rows{
      {"pass", "changes", "nodes", "after", "casts", "after", "ms"}};
  for (const graph::PassRecord& pass : report.passes) {
    rows.push_back({pass.name, std::to_string(pass.changes), std::to_string(pass.nodes_before),
                    std::to_string(pass.nodes_after), std::to_string(pass.casts_before),
                    std::to_string(pass.casts_after), fmt::format("{:.2f}", pass.ms)});
  }
  write_out("{}\n", format_table(rows));
}

std::string bytes_text(std::size_t bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); }

void print_memory(const graph::GraphMemory& memory) {
  write_out("arena       {}, of which at least {} are live at a time\n", bytes_text(memory.arena),
            bytes_text(memory.least));
  write_out("eager       {}, if every result has its own memory until its last read\n",
            bytes_text(memory.eager));
  write_out("parameters  {}, and {} for their 16-bit copies\n", bytes_text(memory.parameters),
            bytes_text(memory.parameter_copies));
  write_out("states      {}, parameters with the buffers and constants that calls read\n",
            bytes_text(memory.states));
}

}  // namespace

Json frozen_fields(nn::Module& net) {
  const nn::Frozen frozen = nn::frozen_parts(net);
  return {{"frozen_parameters", frozen.parameters.size()}, {"frozen_norms", frozen.norms.size()}};
}

void print_frozen(nn::Module& net) {
  const std::string frozen = nn::describe_frozen(net);
  if (!frozen.empty()) write_out("frozen: {}\n", frozen);
}

void run_plan_graph(const PlanOptions& options) {
  const train::RunOptions run = options.parsed();
  JsonLines json(options.json);
  const CapturedStep captured = capture_step(options, run);
  const GraphReport& report = captured.report;
  write_text(options.dot, captured.dot);
  write_text(options.text, captured.text);
  for (const graph::PaintedCall& call : report.calls) json.write(event_of(call));
  for (const graph::PassRecord& pass : report.passes) json.write(event_of(pass));
  json.write(totals_of(run, captured));
  print_calls(report, options.wide);
  const Shape& shape = captured.example.shape;
  const std::string size = captured.example.is_tokens()
                               ? fmt::format("{} tokens", shape[0])
                               : fmt::format("{}x{}x{}", shape[0], shape[1], shape[2]);
  write_out("A training step of {} at {} on {} {} of {}\n\n", run.model, precision_of(run),
            captured.count, train::name_of_examples(shape), size);
  print_counts(report);
  print_passes(report);
  write_out("{}\n\n", graph::to_text(report.paint));
  print_memory(report.memory);
  print_frozen(*captured.net);
}

}  // namespace mezzo::cli
