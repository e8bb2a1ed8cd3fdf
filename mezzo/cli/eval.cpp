// mezzo eval: loss and accuracy of saved weights on a data set.
#include <fmt/format.h>

#include "mezzo/cli/command.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/output.h"
#include "mezzo/data/open.h"
#include "mezzo/io/npy.h"
#include "mezzo/ops/grad_mode.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/report/page.h"

namespace mezzo::cli {
namespace {

struct EvalOptions : SharedOptions {
  std::string logits{};
};

// Writes the logits of all images, [n, classes], in the order of the data.
void write_logits(const std::string& path, const std::vector<Tensor>& batches) {
  const NoGrad no_grad;
  io::write_npy(path, cat(batches, 0));
}

void run_eval(const EvalOptions& options) {
  const train::RunOptions run = options.parsed();
  apply_machine_options(options);
  const auto dataset =
      data::open_dataset(run.data, data::Split::kTest, {.image_size = run.image_size});
  const auto net = train::make_model(run, dataset->image_shape(), dataset->num_classes());
  JsonLines json(options.json);
  json.begin(start_event("eval", run));
  if (!options.logits.empty()) report::check_writable(options.logits);
  const amp::Policy policy = amp::apply_options(*net, run.policy, run.precision);
  std::vector<Tensor> logits;
  std::function<void(const Tensor&)> keep_logits;
  if (!options.logits.empty()) {
    keep_logits = [&](const Tensor& batch) { logits.push_back(batch.to(kCpuDevice)); };
  }
  const train::Evaluation result =
      train::evaluate(*net, *dataset, run.batch_size, policy, run.workers, keep_logits);
  json.write({{"event", "result"},
              {"model", run.model},
              {"level", amp::name_of(run.policy.level)},
              {"dtype", name_of(run.policy.dtype())},
              {"loss", result.loss},
              {"accuracy", result.accuracy}});
  if (!options.logits.empty()) write_logits(options.logits, logits);
  fmt::print("{} at {}/{}: accuracy {:.2f} %, loss {:.4f} on {} images\n", run.model,
             amp::name_of(run.policy.level), name_of(run.policy.dtype()), 100 * result.accuracy,
             without_sign(result.loss), dataset->size());
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Loss and accuracy of saved weights");
  auto options = std::make_shared<EvalOptions>();
  add_precision_options(*command, *options);
  command
      ->add_option("--weights", options->run.weights,
                   "safetensors file, checkpoint or folder of checkpoints")
      ->required();
  add_data_options(*command, *options);
  add_level_option(*command, *options);
  command->add_option("--batch-size", options->run.batch_size, "Images per step")
      ->capture_default_str();
  add_device_options(*command, *options);
  command->add_option("--threads", options->threads, "Threads to use (all cores)");
  command->add_option("--json", options->json, "Write events to this file");
  command->add_option("--logits", options->logits,
                      "Write the logits of all images to this .npy file");
  command->callback([options] { run_eval(*options); });
}

}  // namespace mezzo::cli
