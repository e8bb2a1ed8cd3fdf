// The networks of the library, by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/nn/module.h"

namespace mezzo::models {

// The task of a network, and its initialisation. Networks for images read [n, in_channels,
// image_size, image_size] of num_classes kinds; language models read i64 tokens.
struct ModelConfig {
  std::int64_t in_channels = 3;
  std::int64_t num_classes = 10;
  std::int64_t image_size = 32;
  // For residual networks: the last batch norm of each block begins with weight 0, so that blocks
  // pass on their input until they have learnt something (Goyal et al.: "Accurate, large minibatch
  // SGD: training ImageNet in 1 hour", 2017, section 5.1).
  bool zero_init_residual = false;
  // For language models, which ignore the numbers above and which others ignore: sequences of up to
  // `tokens` tokens out of `vocabulary`. 0: the usual numbers of the model. More tokens than it
  // usually has positions make it one with more positions.
  std::int64_t tokens = 0;
  std::int64_t vocabulary = 0;

  // Of a usual_config(): whether the model reads tokens.
  bool is_for_tokens() const { return vocabulary > 0; }
};

// A new network with initial values from default_generator(): `lenet5`, `mlp`, `resnet20`, ... Its
// forward pass gives logits [n, num_classes], or [n, tokens, vocabulary]. Throws ArgumentError,
// listing the names, if there is no such network. Also throws it if the network cannot take such
// images, or has no residual blocks for zero_init_residual, and for negative numbers of tokens.
std::unique_ptr<nn::Module> create(std::string_view name, const ModelConfig& config = {});

// What a network was designed for: 28x28 grey digits, CIFAR-10, ImageNet, or sequences of tokens.
// Throws like create().
ModelConfig usual_config(std::string_view name);

// The names that create() knows.
std::vector<std::string> names();

}  // namespace mezzo::models
