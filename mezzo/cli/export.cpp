// mezzo export: writes a network as an ONNX file.
#include <filesystem>

#include "mezzo/cli/command.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/cli/table.h"
#include "mezzo/interchange/onnx.h"
#include "mezzo/models/model.h"

namespace mezzo::cli {
namespace {

struct ExportOptions {
  train::RunOptions run{};
  std::int64_t channels = 0;  // 0, here and below: the model's usual value
  std::int64_t classes = 0;
  std::string out{};
};

void run_export(const ExportOptions& options) {
  const NamedFile out{"--out", options.out};
  check_distinct({{"--weights", options.run.fine_tuning.weights}, out});
  check_outputs({out});
  const train::RunOptions& run = options.run;
  models::ModelConfig config = models::usual_config(run.model);
  if (options.channels != 0) config.in_channels = options.channels;
  if (options.classes != 0) config.num_classes = options.classes;
  if (run.image_size != 0) config.image_size = run.image_size;
  const Shape image{config.in_channels, config.image_size, config.image_size};
  const auto net = train::make_model(run, image, config.num_classes);
  interchange::export_onnx(*net, image, options.out);
  write_out("{}: {} for images [N, {}, {}, {}], {} classes, {}\n", options.out, run.model, image[0],
            image[1], image[2], config.num_classes,
            format_bytes(static_cast<std::int64_t>(std::filesystem::file_size(options.out))));
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "A network as an ONNX file");
  auto options = std::make_shared<ExportOptions>();
  add_model_option(*command, options->run);
  offer_files(command->add_option(
      "--weights", options->run.fine_tuning.weights,
      "safetensors file, checkpoint or folder of checkpoints (initial weights of --seed)"));
  offer_files(command->add_option("--out", options->out, "File to write"))->required();
  add_size(*command, "--image-size", options->run.image_size,
           "Height and width of the input (the model's default)");
  add_size(*command, "--channels", options->channels,
           "Channels of the input (the model's default)");
  add_size(*command, "--classes", options->classes, "Number of classes (the model's default)");
  command->add_option("--seed", options->run.seed, "Seed of the initial weights")
      ->capture_default_str();
  command->callback([options] { run_export(*options); });
}

}  // namespace mezzo::cli
