#include "tests/interop/training_steps.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "mezzo/mezzo.h"

namespace mezzo::interop {
namespace {

std::unique_ptr<nn::Module> network(const std::string& model, const std::string& weights) {
  models::ModelConfig config = models::usual_config(model);
  std::unique_ptr<nn::Module> net = models::create(model, config);
  net->load_state(models::from_weight_file(*net, io::read_safetensors(weights).tensors));
  net->eval();
  return net;
}

// Gradients have the layout of weights if they are the weights of another network.
std::vector<NamedTensor> gradients_as_in_files(const nn::Module& net, const std::string& model) {
  std::vector<NamedTensor> gradients = net.named_parameters();
  for (NamedTensor& entry : gradients) entry.tensor = entry.tensor.grad();
  const std::unique_ptr<nn::Module> holder = models::create(model, models::usual_config(model));
  holder->load_state(gradients);
  return models::to_weight_file(*holder);
}

// Batch i of [n, ...].
Tensor batch(const Tensor& all, std::int64_t i) { return flatten(slice(all, 0, i, i + 1), 0, 1); }

}  // namespace

void training_steps(const std::string& model, const std::string& folder, double rate) {
  const std::unique_ptr<nn::Module> net = network(model, folder + "/weights.safetensors");
  const Tensor inputs = io::read_npy(folder + "/inputs.npy");
  const Tensor labels = io::read_npy(folder + "/labels.npy");
  optim::AdamW optimizer(net->parameters(), {.lr = rate, .weight_decay = 0.1});
  std::vector<float> losses;
  for (std::int64_t i = 0; i < inputs.size(0); ++i) {
    const Tensor output = (*net)(batch(inputs, i));
    const Tensor loss = models::predicts_tokens(model)
                            ? nn::NextTokenLoss()(output, batch(labels, i))
                            : nn::CrossEntropyLoss()(output, batch(labels, i));
    losses.push_back(static_cast<float>(loss.item()));
    optimizer.zero_grad();
    loss.backward();
    if (i == 0) {
      io::write_safetensors(folder + "/gradients.safetensors", gradients_as_in_files(*net, model));
    }
    optimizer.step();
  }
  const auto n = static_cast<std::int64_t>(losses.size());
  io::write_npy(folder + "/losses.npy", from_values<float>(losses, {n}));
}

}  // namespace mezzo::interop
