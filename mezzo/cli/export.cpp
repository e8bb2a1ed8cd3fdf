// mezzo export: writes a network as an ONNX file.
#include <algorithm>
#include <filesystem>

#include "mezzo/cli/command.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/cli/table.h"
#include "mezzo/interchange/onnx.h"
#include "mezzo/train/example.h"

namespace mezzo::cli {
namespace {

struct ExportOptions {
  train::RunOptions run{};
  std::int64_t channels = 0;  // 0, here and below: the model's usual value
  std::int64_t classes = 0;
  std::string out{};
};

train::ExampleKind example_of(const ExportOptions& options) {
  train::ExampleKind example = train::usual_example(options.run);
  check_arg(!example.is_tokens() || options.channels == 0, "--channels", options.run.model,
            " reads tokens, not images. Leave it out");
  check_arg(!example.predicts_tokens || options.classes == 0, "--classes", "those of ",
            options.run.model, " are its vocabulary. Leave it out");
  if (options.channels != 0) example.shape[0] = options.channels;
  if (options.classes != 0) example.classes = options.classes;
  return example;
}

// A language model takes sequences of any length; a few tokens show what it does with them.
constexpr std::int64_t kTokensToTry = 8;

void run_export(const ExportOptions& options) {
  const NamedFile out{"--out", options.out};
  check_distinct({{"--weights", options.run.fine_tuning.weights}, out});
  check_outputs({out});
  const train::RunOptions& run = options.run;
  const train::ExampleKind example = example_of(options);
  const auto net = train::make_model(run, example.shape, example.classes);
  Shape traced = example.shape;
  if (example.predicts_tokens) traced[0] = std::min(traced[0], kTokensToTry);
  interchange::export_onnx(*net, traced, options.out,
                           {.input = example.is_tokens() ? DType::kI64 : DType::kF32,
                            .open_length = example.predicts_tokens});
  std::string sizes = "N";
  for (const std::int64_t size : example.shape) {
    sizes += example.predicts_tokens ? std::string(", T") : concat(", ", size);
  }
  write_out("{}: {} for {} [{}], {} classes, {}\n", options.out, run.model,
            train::name_of_examples(example.shape), sizes, example.classes,
            format_bytes(static_cast<std::int64_t>(std::filesystem::file_size(options.out))));
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "A network as an ONNX file");
  auto options = std::make_shared<ExportOptions>();
  add_model_option(*command, options->run, OfferedModels::kAll);
  offer_files(command->add_option(
      "--weights", options->run.fine_tuning.weights,
      "safetensors or PyTorch file, checkpoint or folder of them (initial weights of --seed)"));
  offer_files(command->add_option("--out", options->out, "File to write"))->required();
  add_size(*command, "--image-size", options->run.image_size,
           "Height and width of the input (the model's default)");
  add_tokens_option(*command, options->run);
  add_size(*command, "--channels", options->channels,
           "Channels of the input (the model's default)");
  add_size(*command, "--classes", options->classes, "Number of classes (the model's default)");
  command->add_option("--seed", options->run.seed, "Seed of the initial weights")
      ->capture_default_str();
  command->callback([options] { run_export(*options); });
}

}  // namespace mezzo::cli
