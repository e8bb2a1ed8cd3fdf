// Options for data: which images, how many at a time, and for how long.
#include <algorithm>

#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/option_words.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/train/configuration.h"

namespace mezzo::cli {

void add_tokens_option(CLI::App& command, train::RunOptions& run) {
  add_size(command, "--tokens", run.tokens, "Tokens in a sequence")->group(heading::kData);
}

void add_batch_size_option(CLI::App& command, SharedOptions& options) {
  command.add_option("--batch-size", options.run.batch_size, "Examples per step")
      ->capture_default_str()
      ->group(heading::kData);
}

void add_data_options(CLI::App& command, SharedOptions& options) {
  offer(command.add_option("--data", options.run.data, std::string(data::kDatasetNames)),
        words_in(data::kDatasetNames))
      ->capture_default_str()
      ->group(heading::kData);
  add_size(command, "--image-size", options.run.image_size, "Image side (the data's)")
      ->group(heading::kData);
  add_tokens_option(command, options.run);
  offer(command.add_option("--bad-images", options.bad_images, "error or skip"), {"error", "skip"})
      ->capture_default_str()
      ->group(heading::kData);
  command.add_option("--workers", options.run.workers, "Threads for images")
      ->capture_default_str()
      ->group(heading::kData);
}

void set_data(const SharedOptions& options, train::RunOptions& run) {
  const std::string& text = options.bad_images;
  check_arg(text == "error" || text == "skip", "--bad-images", "`", text,
            "` is neither error nor skip. Use one of them");
  run.bad_images = text == "skip" ? data::BadImages::kSkip : data::BadImages::kError;
  check_arg(run.workers >= 0, "--workers", "must not be negative: ", run.workers);
}

void add_training_data_options(CLI::App& command, SharedOptions& options) {
  add_data_options(command, options);
  const auto add = [&](CLI::Option* option) { return option->group(heading::kData); };
  add_batch_size_option(command, options);
  add(command.add_option("--epochs", options.epochs, "Passes over the data (1)"));
  add(command.add_option("--steps", options.run.steps, "Stop after N steps"));
  // As flags that are set to false, they would appear as `--no-shuffle{false}` in the help.
  add(command.add_flag_callback(
      "--no-shuffle", [&options] { options.run.shuffle = false; }, "Keep the files' order"));
  add(command.add_flag_callback(
      "--no-augment", [&options] { options.run.augment = false; }, "No crops and flips"));
  add(command.add_option("--mixup", options.run.mix.mixup, "Alpha of mixup")
          ->capture_default_str());
  add(command.add_option("--cutmix", options.run.mix.cutmix, "Alpha of CutMix")
          ->capture_default_str());
}

void fit_epochs(const SharedOptions& options, std::int64_t examples, train::RunOptions& run) {
  if (options.epochs.has_value() || !run.steps.has_value()) return;
  // Without a whole batch, the loader reports the error.
  const std::int64_t per_epoch =
      std::max<std::int64_t>(examples / run.batch_size / run.process_count(), 1);
  run.epochs = std::min((*run.steps - 1) / per_epoch + 1, train::kMostEpochs);
}

}  // namespace mezzo::cli
