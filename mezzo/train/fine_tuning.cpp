#include "mezzo/train/fine_tuning.h"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "mezzo/core/log.h"
#include "mezzo/data/class_counts.h"
#include "mezzo/data/readable.h"
#include "mezzo/models/weight_files.h"
#include "mezzo/nn/load_matching.h"
#include "mezzo/train/checkpointing.h"

namespace mezzo::train {

namespace {

nn::LoadReport load_all_but(const std::string& head, nn::Module& net,
                            const std::vector<NamedTensor>& state, const std::string& file) {
  try {
    return nn::load_matching(net, state, {head});
  } catch (const ArgumentError& error) {
    fail<ArgumentError>("--weights", file, ": ", data::without_operation(error.what()));
  }
}

// Frozen parameters keep their initial values, so random ones would be useless.
void check_frozen(nn::Module& net, const nn::LoadReport& report, const FineTuning& options) {
  std::unordered_set<std::string_view> taken(report.taken.begin(), report.taken.end());
  std::unordered_set<const TensorImpl*> filled;  // by whichever of its names
  for (const NamedTensor& entry : net.state()) {
    if (taken.contains(entry.name)) filled.insert(entry.tensor.impl());
  }
  for (const std::string& pattern : options.freeze) {
    for (const NamedTensor& entry : nn::parameters_matching(net, pattern, "freeze")) {
      check_arg(filled.contains(entry.tensor.impl()), "--freeze", "`", pattern, "` would keep ",
                entry.name, " at its random initial values: it takes none of ", options.weights,
                ". Leave it out, or give weights that fit");
    }
  }
}

}  // namespace

void load_weights(nn::Module& net, const FineTuning& options) {
  if (options.weights.empty()) return;
  const std::vector<NamedTensor> state =
      models::from_weight_file(net, read_weights(options.weights));
  if (!options.new_head) {
    net.load_state(state);
    return;
  }
  const std::string head = nn::head_of(net);
  check_arg(!head.empty(), "--head",
            "the network has no separate module for its last layer. Leave --head out");
  const nn::LoadReport report = load_all_but(head, net, state, options.weights);
  check_frozen(net, report, options);
  if (report.fits()) return;
  logging::warn_once(concat("[--head] besides the new head `", head, "`, ", options.weights,
                            " does not fit the network: ", report.text(),
                            ". What is missing starts from initial values"));
}

void set_class_weights(LossOptions& loss, const data::Dataset& training_images) {
  if (std::exchange(loss.balances_classes, false)) {
    loss.class_weights = data::balanced_class_weights(training_images);
  }
  if (loss.class_weights.empty()) return;
  check_arg(std::ssize(loss.class_weights) == training_images.num_classes(), "--class-weights",
            "there ",
            loss.class_weights.size() == 1 ? "is 1 weight"
                                           : concat("are ", loss.class_weights.size(), " weights"),
            " for ", training_images.num_classes(), " classes. Give one for each class");
}

void check_class_weights(const LossOptions& loss, const data::Dataset& images, const char* split) {
  const std::vector<double>& weights = loss.class_weights;
  if (weights.empty()) return;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const auto label = static_cast<std::size_t>(images.label(i));
    if (label >= weights.size()) return;  // the loader reports what is wrong with it
    // In f32 as in the loss, where a very small weight is 0.
    if (static_cast<float>(weights[label]) > 0) return;
  }
  fail<ArgumentError>("--class-weights", "no ", split,
                      " image would count: all are of classes with weight 0, so the loss would be "
                      "0 / 0. Make the weight of one of their classes positive");
}

Tensor class_weights_of(const LossOptions& loss, Device device) {
  if (loss.class_weights.empty()) return {};
  const Tensor weights = empty({std::ssize(loss.class_weights)}, DType::kF32);
  auto* const values = weights.mutable_data<float>();
  for (std::size_t i = 0; i < loss.class_weights.size(); ++i) {
    // f32, like the loss that they multiply. In bf16, two classes whose frequencies differ by less
    // than 0.4 % would get the same weight.
    values[i] = static_cast<float>(loss.class_weights[i]);
  }
  return weights.to(device);
}

}  // namespace mezzo::train
