// Parameter groups that differ in weight decay.
#pragma once

#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

// Two groups with the same options, but for the weight decay: matrices and parameters of more axes
// decay, biases and the scales and shifts of norms do not, as is usual for transformers (Brown et
// al.: "Language models are few-shot learners", 2020, and their code). Decay limits how large the
// products of a layer can become; a scale that is pulled to 0, or a bias, gains nothing from it. A
// group without parameters is left out.
//
//   optim::AdamW optimizer(optim::decay_groups(net.parameters(), optim::AdamWOptions{.lr = 3e-4}));
template <class Options>
std::vector<Group<Options>> decay_groups(const std::vector<Tensor>& params,
                                         const Options& options) {
  Group<Options> decaying{{}, options};
  Group<Options> others{{}, options};
  others.options.weight_decay = 0;
  for (const Tensor& param : params) {
    (param.rank() >= 2 ? decaying : others).params.push_back(param);
  }
  std::vector<Group<Options>> groups;
  if (!decaying.params.empty()) groups.push_back(std::move(decaying));
  if (!others.params.empty()) groups.push_back(std::move(others));
  return groups;
}

}  // namespace mezzo::optim
