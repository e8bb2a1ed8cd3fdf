// Mixed precision with a graph, as OneFlow's guide shows it: a network of two layers is trained in
// f16. A class defines the step, which is captured when it is first called. oneflow_amp.cpp does
// the same as plain code.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

class CustomGraph : public Graph<Tensor(Tensor, Tensor)> {
 public:
  CustomGraph(nn::Module& model, optim::Optimizer& optimizer) : model_(model) {
    add_module(model);
    add_optimizer(optimizer);
    config.enable_amp(true);
    set_grad_scaler(amp::oneflow_grad_scaler(/*init_scale=*/4096, /*growth_factor=*/2,
                                             /*backoff_factor=*/0.5, /*growth_interval=*/1000));
  }

 private:
  Tensor build(const Tensor& x, const Tensor& labels) override {
    const Tensor loss = loss_fn_(model_(x), labels);
    backward(loss);
    return loss;
  }

  nn::Module& model_;
  nn::CrossEntropyLoss loss_fn_;
};

// Evaluates the trained network, without an optimizer: only the output is computed.
class EvalGraph : public Graph<Tensor(Tensor)> {
 public:
  explicit EvalGraph(nn::Module& model) : model_(model) {
    add_module(model);
    config.enable_amp(true);
  }

 private:
  Tensor build(const Tensor& x) override { return softmax(model_(x)); }

  nn::Module& model_;
};

}  // namespace

int main() {
  manual_seed(1);
  nn::Sequential model;
  model.emplace<nn::Linear>(256, 128);
  model.emplace<nn::ReLU>();
  model.emplace<nn::Linear>(128, 10);
  optim::Sgd optimizer(model.parameters(), {.lr = 1e-3});

  CustomGraph graph_model(model, optimizer);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 100; ++step) {
    const Tensor x = randn({128, 256});
    const Tensor labels = ones({128}, DType::kI64);
    last = graph_model(x, labels).item();
    if (step == 0) first = last;
  }
  std::printf("%s", to_text(graph_model.program()).c_str());
  std::printf("loss %.4f, then %.4f; the gradients carried a scale of %.0f\n", first, last,
              graph_model.updates()[0].step.scale_used);

  model.eval();
  EvalGraph eval_graph(model);
  const Tensor probabilities = eval_graph(randn({4, 256}));
  std::printf("the first probability of class 1: %.3f\n", probabilities.to_vector<double>()[1]);
  return last < first ? 0 : 1;
}
