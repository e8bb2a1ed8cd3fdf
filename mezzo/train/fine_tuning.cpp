#include "mezzo/train/fine_tuning.h"

#include <utility>

#include "mezzo/core/log.h"
#include "mezzo/data/class_counts.h"
#include "mezzo/nn/load_matching.h"
#include "mezzo/train/checkpointing.h"

namespace mezzo::train {

void load_weights(nn::Module& net, const FineTuning& options) {
  if (options.weights.empty()) return;
  const std::vector<NamedTensor> state = read_weights(options.weights);
  if (!options.new_head) {
    net.load_state(state);
    return;
  }
  const std::string head = nn::head_of(net);
  check_arg(!head.empty(), "--head",
            "the network has no module of its own for its last layer. "
            "Leave --head out");
  const nn::LoadReport report = nn::load_matching(net, state, {head});
  if (report.fits()) return;
  logging::warn_once(concat("[--head] beside the new head `", head, "`, ", options.weights,
                            " does not fit the network: ", report.text(),
                            ". What the network lacks of it begins anew"));
}

void set_class_weights(LossOptions& loss, const data::Dataset& training_images) {
  if (std::exchange(loss.balances_classes, false)) {
    loss.class_weights = data::balanced_class_weights(training_images);
  }
  if (loss.class_weights.empty()) return;
  check_arg(std::ssize(loss.class_weights) == training_images.num_classes(), "--class-weights",
            "there are ", loss.class_weights.size(), " weights for ", training_images.num_classes(),
            " classes. Give one for each class");
}

Tensor class_weights_of(const LossOptions& loss, Device device) {
  if (loss.class_weights.empty()) return {};
  const Tensor weights = empty({std::ssize(loss.class_weights)}, DType::kF32);
  auto* const values = weights.mutable_data<float>();
  for (std::size_t i = 0; i < loss.class_weights.size(); ++i) {
    // f32: the loss, which they multiply, is computed in it; in bf16, two classes whose frequencies
    // differ by less than 0.4 % would get the same weight.
    values[i] = static_cast<float>(loss.class_weights[i]);
  }
  return weights.to(device);
}

}  // namespace mezzo::train
