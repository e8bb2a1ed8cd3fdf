// mezzo plan: shows what a model would run in which precision, and why.
#include "mezzo/amp/plan.h"

#include <algorithm>

#include "mezzo/cli/command.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/events.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/plan_graph.h"
#include "mezzo/cli/plan_table.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/cli/table.h"
#include "mezzo/models/model.h"
#include "mezzo/train/example.h"

namespace mezzo::cli {
namespace {

Json event_of(const amp::PlannedOp& op) {
  Json casts = Json::array();
  for (const amp::PlannedCast& cast : op.casts) {
    casts.push_back({{"input", cast.input},
                     {"from", name_of(cast.from)},
                     {"to", name_of(cast.to)},
                     {"parameter", cast.parameter},
                     {"shared", cast.shared}});
  }
  return {{"event", "op"},   {"path", op.path},     {"op", op.op},   {"dtype", name_of(op.dtype)},
          {"rule", op.rule}, {"reason", op.reason}, {"casts", casts}};
}

Json totals_of(const train::RunOptions& options, const amp::Plan& plan, nn::Module& net) {
  Json event = begin_result(options);
  event.update(frozen_fields(net));
  event.update({{"ops", plan.ops.size()},
                {"ops_f32", plan.count(DType::kF32)},
                {"casts", plan.casts},
                {"shared_casts", plan.shared_casts},
                {"avoided_casts", plan.avoided_casts}});
  return event;
}

void print_plan(const train::RunOptions& options, const amp::Plan& plan, bool wide) {
  write_out("{}\n", plan_table(rows_of(plan), wide));
  std::string totals =
      fmt::format("{} at {}: {} operations", options.model, precision_of(options), plan.ops.size());
  const auto add = [&](DType dtype) {
    if (plan.count(dtype) > 0)
      totals += fmt::format(", {} in {}", plan.count(dtype), name_of(dtype));
  };
  std::ranges::for_each(kLowerDTypes, add);
  add(DType::kF32);
  const std::string casts = fmt::format(
      "{} casts; {} more were saved by sharing the 16-bit copy of a parameter, {} because the "
      "input already was in 16 bits.",
      plan.casts, plan.shared_casts, plan.avoided_casts);
  write_out("{}\n{}\nThe backward pass runs in the dtypes of the forward pass.\n",
            wrap(totals, kPlanWidth), wrap(casts, kPlanWidth));
}

void check_options(const PlanOptions& options) {
  const std::int64_t images = options.batch_size.value_or(1);
  check_arg(images >= 1, "--batch-size", "must be at least 1: ", images);
  check_arg(options.run.graph || (options.dot.empty() && options.text.empty()),
            options.dot.empty() ? "--text" : "--dot",
            "writes the captured training step, and without --graph there is none. Add --graph");
  const NamedFile json{"--json", options.json};
  const NamedFile dot{"--dot", options.dot};
  const NamedFile text{"--text", options.text};
  check_distinct({{"--plan", options.plan}, json, dot, text});
  check_outputs({json, dot, text});
}

void run_plan(const PlanOptions& options) {
  const train::RunOptions run = options.parsed();
  const std::int64_t images = options.batch_size.value_or(1);
  const train::ExampleKind example = train::usual_example(run);
  const auto net = train::make_model(run, example.shape, example.classes);
  const amp::Policy policy = train::apply_precision(*net, run, example.shape);
  const Tensor input = train::zero_examples(example.shape, images, net->device());
  amp::Plan plan = amp::make_plan(*net, input, policy);
  explain_by(run.plan.get(), plan.ops);
  JsonLines json(options.json);
  for (const amp::PlannedOp& op : plan.ops) json.write(event_of(op));
  json.write(totals_of(run, plan, *net));
  print_plan(run, plan, options.wide);
  print_frozen(*net);
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "The precision of every operation of a model, and why");
  auto options = std::make_shared<PlanOptions>();
  // Not "model": CLI11 2.4 takes a positional for the option of the same name.
  CLI::Option* network = offer(
      command->add_option("network", options->run.model, "Network, as --model"), models::names());
  add_precision_options(*command, *options, OfferedModels::kAll);
  network->excludes("--model");
  add_freeze_option(*command, *options);
  add_size(*command, "--image-size", options->run.image_size,
           "Height and width of the input (the model's default)")
      ->group(heading::kData);
  add_tokens_option(*command, options->run);
  command
      ->add_option("--batch-size", options->batch_size,
                   "Images, or sequences, per batch (1; with --graph 2, as batch norm may need)")
      ->group(heading::kData);
  command
      ->add_flag("--graph", options->run.graph,
                 "Show the whole training step as graph mode runs it: nodes, passes, memory")
      ->group(heading::kExecution);
  command
      ->add_flag("--wide", options->wide,
                 "The reason in every row, however long (default: each once, in 100 columns)")
      ->group(heading::kOutput);
  const auto add_file = [&](const char* name, std::string& path, const char* help) {
    offer_files(command->add_option(name, path, help))->group(heading::kOutput);
  };
  add_file("--json", options->json, "Write the plan to this file, a line per operation");
  add_file("--dot", options->dot, "With --graph: write a picture for Graphviz to this file");
  add_file("--text", options->text, "With --graph: write the program as text to this file");
  command->callback([options] {
    check_options(*options);
    options->run.graph ? run_plan_graph(*options) : run_plan(*options);
  });
}

}  // namespace mezzo::cli
