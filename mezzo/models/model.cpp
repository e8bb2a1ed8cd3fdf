#include "mezzo/models/model.h"

#include <algorithm>

#include "mezzo/models/gpt.h"
#include "mezzo/models/lenet5.h"
#include "mezzo/models/mlp.h"
#include "mezzo/models/resnet.h"
#include "mezzo/models/resnet20.h"
#include "mezzo/models/vit.h"

namespace mezzo::models {
namespace {

using Create = std::unique_ptr<nn::Module> (*)(const ModelConfig& config);

struct Entry {
  const char* name;
  Create create;
  ModelConfig usual;  // what it was designed for
  bool has_residual_blocks = false;
};

constexpr ModelConfig kDigits{.in_channels = 1, .num_classes = 10, .image_size = 28};
constexpr ModelConfig kCifar{.in_channels = 3, .num_classes = 10, .image_size = 32};
constexpr ModelConfig kImageNet{.in_channels = 3, .num_classes = 1000, .image_size = 224};
constexpr ModelConfig kBytes{.tokens = 256, .vocabulary = 256};
// A step of the default batch with all 1024 positions would need more than 100 GB.
constexpr ModelConfig kGpt2Tokens{.tokens = 64, .vocabulary = 50257};

template <class Model>
std::unique_ptr<nn::Module> make(const ModelConfig& config) {
  return std::make_unique<Model>(config);
}

template <ResNetDepth depth>
std::unique_ptr<nn::Module> make_resnet(const ModelConfig& config) {
  return std::make_unique<ResNet>(depth, config);
}

std::unique_ptr<nn::Module> make_resnet50_cifar(const ModelConfig& config) {
  return std::make_unique<ResNet>(ResNetDepth::k50, config, ResNetOptions::cifar_experiment());
}

template <VitOptions (*options)()>
std::unique_ptr<nn::Module> make_vit(const ModelConfig& config) {
  return std::make_unique<Vit>(config, options());
}

template <GptOptions (*options)()>
std::unique_ptr<nn::Module> make_gpt(const ModelConfig& config) {
  GptOptions sizes = options();
  if (config.vocabulary > 0) sizes.vocabulary = config.vocabulary;
  sizes.positions = std::max(sizes.positions, config.tokens);
  return std::make_unique<Gpt>(sizes);
}

constexpr Entry kModels[] = {
    {"lenet5", make<LeNet5>, kDigits},
    {"mlp", make<Mlp>, kDigits},
    {"resnet20", make<ResNet20>, kCifar, true},
    {"resnet18", make_resnet<ResNetDepth::k18>, kImageNet, true},
    {"resnet34", make_resnet<ResNetDepth::k34>, kImageNet, true},
    {"resnet50", make_resnet<ResNetDepth::k50>, kImageNet, true},
    {"resnet101", make_resnet<ResNetDepth::k101>, kImageNet, true},
    {"resnet50_cifar", make_resnet50_cifar, kCifar, true},
    {"vit_ti_16", make_vit<VitOptions::tiny>, kImageNet},
    {"vit_s_16", make_vit<VitOptions::small>, kImageNet},
    {"vit_b_16", make_vit<VitOptions::base>, kImageNet},
    {"gpt-tiny", make_gpt<GptOptions::tiny>, kBytes},
    {"gpt2", make_gpt<GptOptions::gpt2>, kGpt2Tokens},
    {"gpt2-medium", make_gpt<GptOptions::medium>, kGpt2Tokens},
    {"gpt2-large", make_gpt<GptOptions::large>, kGpt2Tokens},
    {"gpt2-xl", make_gpt<GptOptions::xl>, kGpt2Tokens},
};

const Entry& find_model(std::string_view name) {
  std::string known;
  for (const Entry& entry : kModels) {
    if (name == entry.name) return entry;
    known += known.empty() ? entry.name : concat(", ", entry.name);
  }
  fail("model", "there is no model `", name, "`. Choose one of ", known);
}

}  // namespace

std::unique_ptr<nn::Module> create(std::string_view name, const ModelConfig& config) {
  const Entry& entry = find_model(name);
  check_arg(config.in_channels > 0 && config.num_classes > 0 && config.image_size > 0, "model",
            "channels, classes and image size must be positive, not ", config.in_channels, ", ",
            config.num_classes, " and ", config.image_size);
  check_arg(config.tokens >= 0 && config.vocabulary >= 0, "model",
            "tokens and vocabulary must not be negative: ", config.tokens, " and ",
            config.vocabulary);
  check_arg(entry.has_residual_blocks || !config.zero_init_residual, "model", name,
            " has no residual blocks whose last norm could start at 0. Choose a residual ",
            "network, or leave zero_init_residual out");
  return entry.create(config);
}

ModelConfig usual_config(std::string_view name) { return find_model(name).usual; }

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const Entry& entry : kModels) result.emplace_back(entry.name);
  return result;
}

}  // namespace mezzo::models
