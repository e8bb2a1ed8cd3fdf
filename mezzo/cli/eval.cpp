// mezzo eval: the loss of saved weights on a data set, and the accuracy or the perplexity.
#include "mezzo/cli/batch_watch.h"
#include "mezzo/cli/command.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/events.h"
#include "mezzo/cli/failures.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/left_out.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/data/open.h"
#include "mezzo/data/token_batches.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/npy.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/example.h"
#include "mezzo/train/fine_tuning.h"

namespace mezzo::cli {
namespace {

struct EvalOptions : SharedOptions {
  std::string logits{};
};

// Writes all logits, [n, classes] or [n, tokens, vocabulary], in the order of the data.
void write_logits(const std::string& path, const std::vector<Tensor>& batches) {
  const NoGrad no_grad;
  io::write_npy(path, cat(batches, 0));
}

struct Evaluated {
  Measured measured{};
  std::vector<Tensor> logits{};  // if requested
};

// The images or sequences of the test set.
std::int64_t examples_in(const train::RunOptions& run, const train::DataPair& data) {
  return data.test != nullptr ? data.test->size()
                              : data::sequences_in(*data.test_tokens, run.tokens);
}

Evaluated evaluate(const EvalOptions& options, const train::RunOptions& run,
                   const train::DataPair& data, nn::Module& net) {
  const amp::Policy policy = train::apply_precision(net, run, train::example_of(run, data).shape);
  const std::int64_t examples = examples_in(run, data);
  Evaluated evaluated;
  Measured& measured = evaluated.measured;
  reset_peak_memory(run.device);
  BatchWatch watch(run.model, (examples - 1) / run.batch_size + 1, options.quiet);
  const train::EvaluateOptions how{.batch_size = run.batch_size,
                                   .policy = policy,
                                   .loss = run.loss,
                                   .workers = run.workers,
                                   .on_logits = [&](const Tensor& logits) {
                                     if (!options.logits.empty()) {
                                       evaluated.logits.push_back(logits.to(kCpuDevice));
                                     }
                                     watch.next();
                                   }};
  measured.test = data.test != nullptr ? train::evaluate(net, *data.test, how)
                                       : train::evaluate(net, *data.test_tokens, run.tokens, how);
  measured.step_ms_median = watch.median_ms();
  measured.images_per_s = 1000 * static_cast<double>(examples) / watch.total_ms();
  measured.tokens_per_s = measured.images_per_s * static_cast<double>(run.tokens);
  measured.peak_bytes = memory_stats(run.device).peak_bytes;
  return evaluated;
}

// As in training, `balanced` refers to the classes of the training images. Tokens have no classes.
void set_class_weights(train::RunOptions& run, const train::DataPair& data) {
  if (data.test == nullptr) return;
  const data::Dataset& test_images = *data.test;
  if (run.loss.balances_classes) {
    const data::OpenOptions as_in_training{.image_size = run.image_size,
                                           .bad_images = run.bad_images};
    train::set_class_weights(run.loss,
                             *data::open_dataset(run.data, data::Split::kTrain, as_in_training));
  } else {
    train::set_class_weights(run.loss, test_images);
  }
  train::check_class_weights(run.loss, test_images, "test");
}

void run_eval(const EvalOptions& options) {
  const NamedFile json{"--json", options.json};
  const NamedFile logits{"--logits", options.logits};
  check_distinct({{"--weights", options.run.fine_tuning.weights},
                  {"--class-weights", options.class_weights},
                  {"--plan", options.plan},
                  json,
                  logits});
  check_outputs({json, logits}, {.data = options.run.data});
  train::RunOptions run = options.parsed();
  apply_machine_options(options);
  const train::DataPair data = train::open_test_data(run);
  train::fit_to_data(run, data);
  set_class_weights(run, data);
  const train::ExampleKind example = train::example_of(run, data);
  const auto net = train::make_model(run, example.shape, example.classes);
  JsonLines log(options.json);
  Json own = data_fields(run);
  own["weights"] = run.fine_tuning.weights;
  own["class_weights"] = run.loss.class_weights;
  log.begin(start_event("eval", run, own));
  begin_left_out(log, data);
  if (!options.logits.empty()) io::check_writable(options.logits, "--logits");
  const Evaluated evaluated =
      with_advice_on_images(run, [&] { return evaluate(options, run, data, *net); });
  const Measured& measured = evaluated.measured;
  const std::string name = train::name_of_examples(example.shape);
  const std::int64_t examples = examples_in(run, data);
  log.write(result_event(run, measured, {{name, examples}}));
  if (!options.logits.empty()) {
    on_the_way([&] { write_logits(options.logits, evaluated.logits); });
  }
  write_out("{} at {}: {} on {} {}, {}, peak {}\n", run.model, precision_of(run),
            text_of(*measured.test), examples, name,
            rate_text(measured.images_per_s, measured.tokens_per_s),
            format_bytes(measured.peak_bytes));
  print_left_out(data);
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("eval", "Loss and accuracy, or perplexity, of saved weights");
  auto options = std::make_shared<EvalOptions>();
  add_precision_options(*command, *options, OfferedModels::kWithData);
  offer_files(command->add_option("--weights", options->run.fine_tuning.weights,
                                  "safetensors or PyTorch file, checkpoint or folder of them"))
      ->required()
      ->group(heading::kModel);
  add_data_options(*command, *options);
  add_class_weights_option(*command, *options);
  add_batch_size_option(*command, *options);
  add_device_options(*command, *options);
  add_output_options(*command, *options);
  offer_files(command->add_option("--logits", options->logits, ".npy file for all logits"))
      ->group(heading::kOutput);
  command->callback([options] { run_eval(*options); });
}

}  // namespace mezzo::cli
