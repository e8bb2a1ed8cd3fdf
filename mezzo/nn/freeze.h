// Parts of a network that are not trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

// The parameters that a shell pattern names, in the order of named_parameters(): those of modules
// whose path matches it, with all that is below them, and those whose own name does. One that
// modules share is named by each of its names. In `layer?.*` a `*` stands for dots, too. Throws
// ArgumentError that begins with `what` if there are none.
std::vector<NamedTensor> parameters_matching(Module& net, const std::string& pattern,
                                             const char* what);

// What of a network is frozen.
struct Frozen {
  std::vector<std::string> parameters{};  // names of those that require no gradients
  std::vector<std::string> norms{};       // paths of batch norms that have none other
  std::int64_t numbers = 0;               // in the parameters
};
Frozen frozen_parts(Module& net);
// `2 of 10 parameters (156 of 44426 numbers), 1 batch norm`; empty if nothing is frozen.
std::string describe_frozen(Module& net);

// Freezes the parameters that the patterns name: they require no gradients any more, and belong to
// no optimizer, which refuses them; so they have neither state nor weight decay. A batch norm all
// of whose parameters are frozen is set to eval(): it normalises by its running statistics, and
// these stay. train() on the whole network ends that, and eval_frozen_norms() puts it back, as
// Model::fit() does. Optimizers are made afterwards, of trainable_parameters(). Throws
// ArgumentError, and changes nothing, if a pattern names nothing, or if nothing would be left to
// train.
//
//   nn::freeze(net, {"conv1", "layer1.*"});
//   optim::Sgd optimizer(nn::trainable_parameters(net), {.lr = 0.01});
// Gives what is frozen then.
Frozen freeze(Module& net, const std::vector<std::string>& patterns);

// Sets the batch norms all of whose parameters are frozen to eval().
void eval_frozen_norms(Module& net);

// The parameters that require gradients, in the order of parameters().
std::vector<Tensor> trainable_parameters(const Module& net);

}  // namespace mezzo::nn
