// mezzo eval: the loss and accuracy of saved weights on a data set.
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

// Writes the logits of all images, [n, classes], in the order of the data.
void write_logits(const std::string& path, const std::vector<Tensor>& batches) {
  const NoGrad no_grad;
  io::write_npy(path, cat(batches, 0));
}

struct Evaluated {
  Measured measured{};
  std::vector<Tensor> logits{};  // if requested
};

Evaluated evaluate(const EvalOptions& options, const train::RunOptions& run,
                   const data::Dataset& images, nn::Module& net) {
  const amp::Policy policy = train::apply_precision(net, run, images.image_shape());
  Evaluated evaluated;
  Measured& measured = evaluated.measured;
  reset_peak_memory(run.device);
  BatchWatch watch(run.model, (images.size() - 1) / run.batch_size + 1, options.quiet);
  measured.test = train::evaluate(net, images,
                                  {.batch_size = run.batch_size,
                                   .policy = policy,
                                   .loss = run.loss,
                                   .workers = run.workers,
                                   .on_logits = [&](const Tensor& logits) {
                                     if (!options.logits.empty()) {
                                       evaluated.logits.push_back(logits.to(kCpuDevice));
                                     }
                                     watch.next();
                                   }});
  measured.step_ms_median = watch.median_ms();
  measured.images_per_s = 1000 * static_cast<double>(images.size()) / watch.total_ms();
  measured.peak_bytes = memory_stats(run.device).peak_bytes;
  return evaluated;
}

// As in training, `balanced` refers to the classes of the training images.
void set_class_weights(train::RunOptions& run, const data::Dataset& test_images) {
  if (!run.loss.balances_classes) return train::set_class_weights(run.loss, test_images);
  const data::OpenOptions as_in_training{.image_size = run.image_size,
                                         .bad_images = run.bad_images};
  train::set_class_weights(run.loss,
                           *data::open_dataset(run.data, data::Split::kTrain, as_in_training));
}

void run_eval(const EvalOptions& options) {
  const NamedFile json{"--json", options.json};
  const NamedFile logits{"--logits", options.logits};
  check_distinct({{"--weights", options.run.fine_tuning.weights},
                  {"--class-weights", options.class_weights},
                  json,
                  logits});
  check_outputs({json, logits}, {.data = options.run.data});
  train::RunOptions run = options.parsed();
  apply_machine_options(options);
  train::check_reads_images(run);
  const auto images = data::open_dataset(
      run.data, data::Split::kTest, {.image_size = run.image_size, .bad_images = run.bad_images});
  train::set_image_size(run, images->image_shape());
  set_class_weights(run, *images);
  train::check_class_weights(run.loss, *images, "test");
  const auto net = train::make_model(run, images->image_shape(), images->num_classes());
  JsonLines log(options.json);
  Json own = data_fields(run);
  own["weights"] = run.fine_tuning.weights;
  own["class_weights"] = run.loss.class_weights;
  log.begin(start_event("eval", run, own));
  begin_left_out(log, *images, "test");
  if (!options.logits.empty()) io::check_writable(options.logits, "--logits");
  const Evaluated evaluated =
      with_advice_on_images(run, [&] { return evaluate(options, run, *images, *net); });
  const Measured& measured = evaluated.measured;
  log.write(result_event(run, measured, {{"images", images->size()}}));
  if (!options.logits.empty()) {
    on_the_way([&] { write_logits(options.logits, evaluated.logits); });
  }
  write_out("{} at {}: accuracy {:.2f} %, loss {:.4f} on {} images, {:.0f} images/s, peak {}\n",
            run.model, text_of(run.policy), 100 * measured.test->accuracy,
            without_sign(measured.test->loss), images->size(), measured.images_per_s,
            format_bytes(measured.peak_bytes));
  print_left_out(*images, "test");
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Loss and accuracy of saved weights");
  auto options = std::make_shared<EvalOptions>();
  add_precision_options(*command, *options, OfferedModels::kForImages);
  offer_files(command->add_option("--weights", options->run.fine_tuning.weights,
                                  "safetensors or PyTorch file, checkpoint or folder of them"))
      ->required()
      ->group(heading::kModel);
  add_data_options(*command, *options);
  add_class_weights_option(*command, *options);
  add_batch_size_option(*command, *options);
  add_device_options(*command, *options);
  add_output_options(*command, *options);
  offer_files(
      command->add_option("--logits", options->logits, ".npy file for the logits of all images"))
      ->group(heading::kOutput);
  command->callback([options] { run_eval(*options); });
}

}  // namespace mezzo::cli
