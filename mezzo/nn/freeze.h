// Freezing parts of a network, so that they are not trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

// The parameters that a shell pattern names, in the order of named_parameters(). A pattern names
// the parameters whose own name matches it, and all parameters of modules whose path matches. A
// shared parameter can be named by each of its names. In `layer?.*`, `*` matches dots, too. Throws
// ArgumentError that begins with `what` if there are none.
std::vector<NamedTensor> parameters_matching(Module& net, const std::string& pattern,
                                             const char* what);

// The frozen parts of a network.
struct Frozen {
  std::vector<std::string> parameters{};  // names of those that require no gradient
  std::vector<std::string> norms{};       // paths of batch norms with only frozen parameters
  std::int64_t numbers = 0;               // elements of the frozen parameters
};
Frozen frozen_parts(Module& net);
// `2 of 10 parameters (156 of 44426 numbers), 1 batch norm`; empty if nothing is frozen.
std::string describe_frozen(Module& net);

// Freezes the parameters that the patterns name: they no longer require gradients. Optimizers
// refuse them, so they have neither state nor weight decay. A batch norm with only frozen
// parameters is set to eval(): it normalises by its running statistics, which stay unchanged.
// Calling train() on the whole network undoes that; eval_frozen_norms() restores it, as
// Model::fit() does. Make optimizers afterwards, from trainable_parameters(). Throws ArgumentError,
// and changes nothing, if a pattern names nothing, or if nothing would be left to train.
//
//   nn::freeze(net, {"conv1", "layer1.*"});
//   optim::Sgd optimizer(nn::trainable_parameters(net), {.lr = 0.01});
//
// Returns everything that is frozen then.
Frozen freeze(Module& net, const std::vector<std::string>& patterns);

// Sets batch norms with only frozen parameters to eval().
void eval_frozen_norms(Module& net);

// The parameters that require gradients, in the order of parameters().
std::vector<Tensor> trainable_parameters(const Module& net);

}  // namespace mezzo::nn
