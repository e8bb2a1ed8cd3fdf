// The cost of histograms: the time of a training step in which the exponents of gradients,
// activations and weights are counted, beside that of a step between two counts, and of a step of a
// run that counts nothing. The three alternate, and their medians are compared.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "mezzo/mezzo.h"
#include "mezzo/train/median.h"
#include "mezzo/train/trainer.h"

namespace mezzo {
namespace {

using Clock = std::chrono::steady_clock;

// A network in training on generated input.
class Training {
 public:
  Training(const train::RunOptions& options, std::int64_t histogram_every)
      : example_(train::usual_example(options)),
        trainer_(counting(options, histogram_every), example_.shape, example_.classes),
        batch_(train::generated_batch(example_, options.batch_size)) {}

  // The time of a step in ms, from call to return.
  double step() {
    const auto start = Clock::now();
    trainer_.model.train_step()(batch_.images, batch_.labels);
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

 private:
  static train::RunOptions counting(train::RunOptions options, std::int64_t histogram_every) {
    options.histogram_every = histogram_every;
    return options;
  }

  train::ExampleKind example_;
  train::Trainer trainer_;
  data::Batch batch_;
};

void measure(const train::RunOptions& options, int rounds) {
  Training counts(options, 2);
  Training counts_nothing(options, 0);
  std::vector<double> counted;
  std::vector<double> between;
  std::vector<double> without;
  for (int i = 0; i < rounds + 1; ++i) {
    const double first = counts.step();
    const double nothing = counts_nothing.step();
    const double second = counts.step();
    if (i == 0) continue;  // warm-up
    counted.push_back(first);
    without.push_back(nothing);
    between.push_back(second);
  }
  const double plain = std::min(train::median(between), train::median(without));
  constexpr double kDefaultInterval = 50;
  std::printf(
      "%s batch %lld, %s: counts nothing %.2f ms, between counts %.2f ms (%+.2f %%), "
      "counted %.2f ms; every 50th: %.2f %%\n",
      options.model.c_str(), static_cast<long long>(options.batch_size),
      concat(options.policy.level, "/", options.policy.dtype()).c_str(), train::median(without),
      train::median(between), 100 * (train::median(between) / train::median(without) - 1),
      train::median(counted), 100 * (train::median(counted) - plain) / kDefaultInterval / plain);
}

}  // namespace
}  // namespace mezzo

int main(int argc, char** argv) {
  CLI::App app{"The cost of histograms of exponents"};
  mezzo::train::RunOptions options{.model = "resnet50", .batch_size = 16};
  std::string dtype = "f32";
  int rounds = 5;
  app.add_option("--model", options.model, "Network")->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "Images or sequences")->capture_default_str();
  app.add_option("--image-size", options.image_size, "Height and width (the model's usual)");
  app.add_option("--tokens", options.tokens, "Length of sequences (the model's usual)");
  app.add_option("--rounds", rounds, "Timed steps of each kind")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("--dtype", dtype, "f32 at O0, or bf16 or f16 at O2")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_flag("--graph", options.graph, "Capture the step");
  CLI11_PARSE(app, argc, argv);
  const bool is_f32 = dtype == "f32";
  options.policy = {is_f32 ? mezzo::amp::Level::kO0 : mezzo::amp::Level::kO2,
                    is_f32 ? mezzo::DType::kBf16 : *mezzo::parse_dtype(dtype)};
  try {
    mezzo::measure(options, rounds);
  } catch (const mezzo::Error& error) {
    std::fprintf(stderr, "mezzo_histogram_cost: %s\n", error.what());
    return 1;
  }
}
