// Tests trainings that are disturbed between their steps, eagerly and captured: modes, frozen,
// edited and replaced parameters, regions, batch sizes, overflows, and steps that throw during the
// capture.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/nn/nn.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/graph/fake_recorder.h"

namespace mezzo::graph {
namespace {

constexpr std::uint64_t kTrainings = 40;
constexpr int kSteps = 8;
constexpr std::int64_t kClasses = 5;

using AllValues = std::vector<std::vector<double>>;

class DropBlock : public nn::Module {
 public:
  DropBlock() { add("conv", conv_), add("bn", bn_), add("drop", drop_); }
  Tensor forward(const Tensor& x) override { return relu(drop_(bn_(conv_(x))) + x); }

 private:
  nn::Conv2d conv_{4, 4, 3, {.padding = 1}};
  nn::BatchNorm2d bn_{4};
  nn::Dropout drop_{0.2};
};

// Its block is called twice, for images [n, 3, 4, 4].
class TwiceNet : public nn::Module {
 public:
  TwiceNet() { add("conv", conv_), add("block", block), add("ln", ln_), add("fc", fc_); }
  Tensor forward(const Tensor& x) override {
    return fc_(ln_(mean(block(block(relu(conv_(x)))), {2, 3})));
  }

  DropBlock block;

 private:
  nn::Conv2d conv_{3, 4, 3};
  nn::LayerNorm ln_{{4}};
  nn::Linear fc_{4, kClasses};
};

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

// A hook makes a captured step be captured again, and this one interrupts the capture.
class Interrupt final : public nn::ForwardHook {
 public:
  nn::Tensors around(nn::Module& /*module*/, const nn::Tensors& /*inputs*/,
                     const Forward& /*forward*/) override {
    throw Interrupted();
  }
};

// One training. Its actions depend only on the seed.
class DisturbedRun {
 public:
  // `how`: captured with these options; null: eager.
  DisturbedRun(std::uint64_t seed, const CompileOptions* how)
      : chance_(seed), net_((manual_seed(seed), std::make_unique<TwiceNet>())) {
    clips_ = flip();
    if (flip()) nn::recompute(net_->block);
    const std::vector<Tensor> params = net_->parameters();
    const auto middle = params.begin() + 4;
    sgd_.emplace(std::vector<optim::Group<optim::SgdOptions>>{
        {{params.begin(), middle}, {.lr = 0.05, .momentum = 0.9}},
        {{middle, params.end()}, {.lr = 0.02, .weight_decay = 1e-2}}});
    if (how == nullptr) return;
    CompileOptions options = *how;
    options.networks = {net_.get()};
    compiled_.emplace([this](std::span<const Tensor> batch) { return step(batch); }, options);
  }

  // The results of all steps, read after the last, and the state after each.
  AllValues run() {
    std::vector<Tensor> results;
    AllValues numbers;
    for (int i = 0; i < kSteps; ++i) {
      disturb();
      const std::vector<Tensor> batch = next_batch();
      const std::vector<Tensor> now = compiled_.has_value() ? (*compiled_)(batch) : step(batch);
      results.insert(results.end(), now.begin(), now.end());
      add_state(numbers);
    }
    for (const Tensor& result : results) numbers.push_back(result.to_vector<double>());
    return numbers;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return chance_.below(n); }
  bool flip() { return below(2) == 0; }

  std::vector<Tensor> step(std::span<const Tensor> batch) {
    const Tensor logits = (*net_)(batch[0]);
    const Tensor loss = cross_entropy(logits, batch[1]);
    scaler_.scale(loss).backward();
    if (clips_) {
      scaler_.unscale_(*sgd_);
      optim::clip_grad_norm(sgd_->params(), 0.5);
    }
    scaler_.step(*sgd_);
    scaler_.update();
    net_->zero_grad();
    sgd_->zero_grad();
    return {loss.detach(), logits.detach()};
  }

  std::vector<Tensor> next_batch() {
    std::vector<std::int64_t> labels(size_);
    for (std::int64_t& label : labels) label = static_cast<std::int64_t>(below(kClasses));
    const double scale = std::exchange(overflows_, false) ? 1e38 : 1;
    const auto n = static_cast<std::int64_t>(size_);
    return {randn({n, 3, 4, 4}, chance_) * scale, from_values(labels, {n})};
  }

  void disturb() {
    switch (below(9)) {
      case 0: return net_->train(!net_->is_training());
      case 1: return net_->block.train(flip());
      case 2: return freeze_or_thaw();
      case 3: return sgd_->set_lr(0.01 * static_cast<double>(1 + below(4)), below(2));
      case 4: return edit();
      case 5: return switch_region();
      case 6: return interrupt();
      case 7: overflows_ = true; return;
      default: size_ = 2 + below(2); return;
    }
  }

  void freeze_or_thaw() {
    const std::vector<Tensor> params = net_->parameters();
    Tensor param = params[below(params.size())];
    param.set_requires_grad(!param.requires_grad());
  }

  // Edits a parameter in place, or replaces it by a tensor that the optimizer does not know.
  void edit() {
    const std::vector<NamedTensor> state = net_->state();
    const std::size_t chosen = below(net_->parameters().size());
    if (flip()) {
      const NoGrad guard;
      return add_into(state[chosen].tensor, state[chosen].tensor);
    }
    Tensor& weight = *net_->find("fc")->own_parameters()[0].tensor;
    weight = (weight.detach() * 0.5).set_requires_grad(true);
  }

  void switch_region() {
    if (region_.has_value()) return region_.reset();
    region_.emplace(flip() ? DType::kBf16 : DType::kF16);
  }

  void interrupt() {
    const auto hook = std::make_shared<Interrupt>();
    net_->find("fc")->add_forward_hook(hook);
    const RandomPosition position = default_generator().position();
    std::vector<Tensor> buffers;
    for (const NamedTensor& buffer : net_->named_buffers()) {
      buffers.push_back(empty(buffer.tensor.shape(), buffer.tensor.dtype()));
      copy_elements(buffer.tensor, buffers.back());
    }
    const std::vector<Tensor> batch = next_batch();
    EXPECT_THROW(compiled_.has_value() ? (*compiled_)(batch) : step(batch), Interrupted);
    net_->find("fc")->remove_forward_hook(hook.get());
    // The eager step has got this far; the captured one has not begun.
    default_generator().set_position(position);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      copy_elements(buffers[i], net_->named_buffers()[i].tensor);
    }
  }

  void add_state(AllValues& numbers) const {
    for (const NamedTensor& entry : net_->state()) {
      numbers.push_back(entry.tensor.to_vector<double>());
    }
    for (const NamedTensor& entry : sgd_->state()) {
      numbers.push_back(entry.tensor.to_vector<double>());
    }
    const RandomPosition position = default_generator().position();
    numbers.push_back({scaler_.get_scale(), static_cast<double>(sgd_->updates()),
                       static_cast<double>(position.offset)});
  }

  Generator chance_;
  std::unique_ptr<TwiceNet> net_;
  std::optional<optim::Sgd> sgd_;
  amp::GradScaler scaler_{{.init_scale = 1024, .growth_interval = 2}};
  std::optional<CompiledStep> compiled_;
  std::optional<amp::Autocast> region_;
  bool clips_ = false;
  bool overflows_ = false;
  std::size_t size_ = 3;
};

bool is_same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// Without the passes that round in other places.
TEST(DisturbedTraining, HasTheBitsOfTheEagerOne) {
  CompileOptions exact{.passes = {.disabled = {"paint_precision", "fuse_norm"}},
                       .most_programs = 2};
  for (const bool records : {false, true}) {
    RecorderLog log;
    if (records) exact.record = recorded_in(log);
    for (std::uint64_t seed = 0; seed < kTrainings; ++seed) {
      const AllValues eager = DisturbedRun(seed, nullptr).run();
      const AllValues captured = DisturbedRun(seed, &exact).run();
      ASSERT_EQ(captured.size(), eager.size());
      for (std::size_t i = 0; i < eager.size(); ++i) {
        ASSERT_TRUE(is_same(captured[i], eager[i])) << "seed " << seed << ", tensor " << i;
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::graph
