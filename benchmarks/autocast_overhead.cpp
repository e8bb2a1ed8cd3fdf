// The overhead of autocast: the time of a training step with it, relative to the same step with all
// casts written by hand. The two alternate, and their medians are compared.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "mezzo/mezzo.h"
#include "mezzo/train/median.h"

namespace mezzo {
namespace {

// The weights of convolutions and linear layers, cast by hand: while this exists, the network's
// members are their 16-bit copies.
class CastWeights {
 public:
  CastWeights(nn::Module& net, DType dtype) {
    net.apply([&](nn::Module& module) {
      for (const nn::Module::Member& member : module.own_parameters()) {
        if (member.tensor->rank() < 2) continue;  // biases and normalisations stay f32
        saved_.emplace_back(member.tensor, *member.tensor);
        *member.tensor = member.tensor->astype(dtype);
      }
    });
  }
  ~CastWeights() {
    for (auto& [place, tensor] : saved_) *place = tensor;
  }
  CastWeights(const CastWeights&) = delete;
  CastWeights& operator=(const CastWeights&) = delete;

 private:
  std::vector<std::pair<Tensor*, Tensor>> saved_;
};

struct Setting {
  std::string model = "resnet50";
  std::int64_t batch_size = 16;
  std::int64_t image_size = 224;
  int pairs = 10;
  DType dtype = DType::kBf16;
};

class Comparison {
 public:
  explicit Comparison(const Setting& setting) : setting_(setting) {
    models::ModelConfig config = models::usual_config(setting.model);
    config.image_size = setting.image_size;
    net_ = models::create(setting.model, config);
    const Shape shape{setting.batch_size, config.in_channels, config.image_size, config.image_size};
    images_ = to_format(randn(shape), Format::kChannelsLast);
    labels_ = zeros({setting.batch_size}, DType::kI64);
  }

  // Prints the medians and their ratio.
  void run() {
    std::vector<double> automatic;
    std::vector<double> by_hand;
    for (int i = 0; i < setting_.pairs + 1; ++i) {
      // Whichever runs second finds warmer caches, so they alternate.
      const bool first = i % 2 == 0;
      const double a = time_of(first);
      const double b = time_of(!first);
      if (i == 0) continue;  // warm-up
      automatic.push_back(first ? a : b);
      by_hand.push_back(first ? b : a);
    }
    std::printf("%s batch %lld, %s: autocast %.3f ms, by hand %.3f ms, ratio %.4f\n",
                setting_.model.c_str(), static_cast<long long>(setting_.batch_size),
                name_of(setting_.dtype), train::median(automatic), train::median(by_hand),
                train::median(automatic) / train::median(by_hand));
  }

 private:
  Tensor automatic_loss() {
    const amp::Autocast region(setting_.dtype);
    return cross_entropy((*net_)(images_), labels_);
  }

  Tensor loss_by_hand() {
    const CastWeights cast(*net_, setting_.dtype);
    return cross_entropy((*net_)(images_.astype(setting_.dtype)), labels_);
  }

  double time_of(bool automatic) {
    // An optimizer's step would make the 16-bit copies stale, so this does, too.
    for (const Tensor& parameter : net_->parameters()) parameter.bump_version();
    const auto start = std::chrono::steady_clock::now();
    (automatic ? automatic_loss() : loss_by_hand()).backward();
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    net_->zero_grad();
    return elapsed.count();
  }

  Setting setting_;
  std::unique_ptr<nn::Module> net_;
  Tensor images_;
  Tensor labels_;
};

}  // namespace
}  // namespace mezzo

int main(int argc, char** argv) {
  CLI::App app{"The cost of autocast over casting by hand"};
  mezzo::Setting setting;
  std::string dtype = "bf16";
  app.add_option("--model", setting.model, "Network")->capture_default_str();
  app.add_option("--batch-size", setting.batch_size, "Images")->capture_default_str();
  app.add_option("--image-size", setting.image_size, "Height and width of the input")
      ->capture_default_str();
  app.add_option("--pairs", setting.pairs, "Number of timed pairs of steps")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("--dtype", dtype, "bf16 or f16")->check(CLI::IsMember({"bf16", "f16"}));
  CLI11_PARSE(app, argc, argv);
  setting.dtype = *mezzo::parse_dtype(dtype);
  try {
    mezzo::Comparison(setting).run();
  } catch (const mezzo::Error& error) {
    std::fprintf(stderr, "mezzo_autocast_overhead: %s\n", error.what());
    return 1;
  }
}
