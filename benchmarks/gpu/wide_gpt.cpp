// Times training steps of a GPT that is wide enough for products in eight bits to pay off, in graph
// mode with AdamW: in bf16, or with a recipe of eight bits.
//
//   mezzo_wide_gpt --recipe delayed
//
// The sizes are those of the 1.3 billion parameters of "GPT-3 XL" (Brown et al. 2020), with 16
// heads. Its last line is `RESULT ` and an object of JSON: tokens_per_s, step_ms and peak_bytes.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/mezzo.h"
#include "mezzo/models/gpt.h"
#include "mezzo/nn/loss.h"
#include "mezzo/train/median.h"

namespace mezzo {
namespace {

struct Sizes {
  models::GptOptions net{.positions = 1024, .layers = 24, .heads = 16, .width = 2048, .dropout = 0};
  std::int64_t batch = 8;
  int warmup = 5;
  int steps = 20;
};

amp::Policy policy_of(const std::string& recipe) {
  amp::Policy policy{.level = amp::Level::kO2, .lower = DType::kBf16};
  if (recipe == "bf16") return policy;
  const std::optional<Scaling> scaling = parse_scaling(recipe);
  check_arg(scaling.has_value(), "--recipe", "`", recipe,
            "` is none of bf16, current, delayed, rows and mxfp8");
  policy.eight_bits = amp::make_eight_bits(usual_recipe(*scaling));
  return policy;
}

Tensor tokens_of(const Sizes& sizes) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < sizes.batch * sizes.net.positions; ++i) {
    tokens.push_back((i * i + i / 7) % sizes.net.vocabulary);
  }
  return from_values(tokens, {sizes.batch, sizes.net.positions});
}

void measure_wide_gpt(const Sizes& sizes, const std::string& recipe, Device device) {
  models::Gpt net(sizes.net);
  net.to(device);
  amp::set_policy(net, policy_of(recipe));
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-4});
  amp::TrainStep step(net, nn::NextTokenLoss(), optimizer, amp::GradScaler({}, false));
  step.set_execution(graph::captured(net));
  const Tensor tokens = tokens_of(sizes).to(device);
  std::vector<double> times;
  double loss = 0;
  for (int i = 0; i < sizes.warmup + sizes.steps; ++i) {
    if (i == sizes.warmup && !device.is_cpu()) reset_peak_memory(device);
    const auto start = std::chrono::steady_clock::now();
    loss = step(tokens, tokens).loss;  // waits for the device
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (i >= sizes.warmup) times.push_back(time.count());
  }
  const double ms = train::median(times);
  std::printf(
      "RESULT {\"tokens_per_s\": %.1f, \"step_ms\": %.3f, \"peak_bytes\": %lld, \"loss\": %.4f}\n",
      static_cast<double>(tokens.numel()) / ms * 1e3, ms,
      static_cast<long long>(memory_stats(device).peak_bytes), loss);
}

}  // namespace
}  // namespace mezzo

int main(int argc, char** argv) {
  CLI::App app{"Training steps of a wide GPT"};
  mezzo::Sizes sizes;
  std::string recipe = "bf16";
  std::string device = "cuda";
  app.add_option("--recipe", recipe, "bf16, or current, delayed, rows or mxfp8 for eight bits");
  app.add_option("--device", device, "cuda or cpu");
  app.add_option("--width", sizes.net.width, "Of the network");
  app.add_option("--layers", sizes.net.layers, "Of the network");
  app.add_option("--heads", sizes.net.heads, "Of each attention");
  app.add_option("--vocabulary", sizes.net.vocabulary, "Tokens that there are");
  app.add_option("--tokens", sizes.net.positions, "Of a sequence");
  app.add_option("--batch-size", sizes.batch, "Sequences of a step");
  app.add_option("--warmup", sizes.warmup, "Steps before the timed ones");
  app.add_option("--steps", sizes.steps, "Timed steps");
  CLI11_PARSE(app, argc, argv);
  try {
    const std::optional<mezzo::Device> place = mezzo::parse_device(device);
    mezzo::check_arg(place.has_value(), "--device", "`", device, "` is neither cuda nor cpu");
    mezzo::measure_wide_gpt(sizes, recipe, *place);
  } catch (const mezzo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
