#include "mezzo/models/model.h"

#include "mezzo/models/lenet5.h"
#include "mezzo/models/mlp.h"
#include "mezzo/models/resnet.h"
#include "mezzo/models/resnet20.h"

namespace mezzo::models {
namespace {

using Create = std::unique_ptr<nn::Module> (*)(const ModelConfig& config);

struct Entry {
  const char* name;
  Create create;
  ModelConfig usual;  // the images it was designed for
  bool has_residual_blocks = false;
};

constexpr ModelConfig kDigits{.in_channels = 1, .num_classes = 10, .image_size = 28};
constexpr ModelConfig kCifar{.in_channels = 3, .num_classes = 10, .image_size = 32};
constexpr ModelConfig kImageNet{.in_channels = 3, .num_classes = 1000, .image_size = 224};

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

constexpr Entry kModels[] = {
    {"lenet5", make<LeNet5>, kDigits},
    {"mlp", make<Mlp>, kDigits},
    {"resnet20", make<ResNet20>, kCifar, true},
    {"resnet18", make_resnet<ResNetDepth::k18>, kImageNet, true},
    {"resnet34", make_resnet<ResNetDepth::k34>, kImageNet, true},
    {"resnet50", make_resnet<ResNetDepth::k50>, kImageNet, true},
    {"resnet101", make_resnet<ResNetDepth::k101>, kImageNet, true},
    {"resnet50_cifar", make_resnet50_cifar, kCifar, true},
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
