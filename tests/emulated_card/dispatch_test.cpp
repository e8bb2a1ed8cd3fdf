// Tests what computes a network's step on a device: the libraries compute matrix products and
// convolutions, mezzo's kernels compute the rest, and the host computes nothing.
#include <map>
#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/models/model.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

class Kernels final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double /*ms*/) override {
    of_op[work.op].insert(work.kernel);
  }
  std::map<std::string, std::set<std::string>> of_op;
};

std::map<std::string, std::set<std::string>> kernels_of_a_step(const amp::Policy& policy) {
  manual_seed(3);
  const std::unique_ptr<nn::Module> net = models::create("resnet20");
  net->to(kCard);
  optim::Sgd optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  amp::TrainStep step(*net, amp::class_loss, optimizer, amp::GradScaler(), {.policy = policy});
  const Tensor images = randn({2, 3, 32, 32});
  const Tensor labels = zeros({2}, DType::kI64);
  Kernels kernels;
  const ListenToKernels listening(kernels);
  step(images.to(kCard), labels.to(kCard));
  return kernels.of_op;
}

TEST(EmulatedDispatch, ProductsGoToTheLibrariesAndTheRestToTheCard) {
  for (const amp::Policy& policy :
       {amp::Policy{amp::Level::kO0}, amp::Policy{amp::Level::kO2, DType::kBf16},
        amp::Policy{amp::Level::kO2, DType::kF16}}) {
    const auto kernels_of = kernels_of_a_step(policy);
    EXPECT_TRUE(kernels_of.contains("conv2d_grad_weight"));
    for (const auto& [op, kernels] : kernels_of) {
      std::set<std::string> expected{"cuda"};
      if (op.starts_with("conv2d")) expected = {"cuda_cudnn"};
      // The first layer's images have three channels.
      const bool is_first_layers = op == "conv2d" || op == "conv2d_grad_weight";
      if (is_first_layers && policy.level != amp::Level::kO0) expected.insert("cuda_few_channels");
      if (op.starts_with("linear") || op.starts_with("matmul")) expected = {"cuda_cublaslt"};
      if (op == "cast" || op == "to_format" || op == "cat") expected = {"cuda_copy"};
      EXPECT_EQ(kernels, expected) << op;
    }
  }
}

}  // namespace
}  // namespace mezzo
