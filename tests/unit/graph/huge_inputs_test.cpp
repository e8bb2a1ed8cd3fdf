// Tests finite images that f32 cannot normalise: the step is skipped as for a non-finite loss, in
// eager mode and in graph mode, and changes nothing.
#include <cmath>
#include <limits>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/group_norm.h"
#include "mezzo/nn/layer_norm.h"
#include "mezzo/nn/recompute.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

constexpr double kHugeImage = 3e19;

std::vector<std::vector<double>> buffers_of(const nn::Module& net) {
  std::vector<std::vector<double>> values;
  for (const NamedTensor& entry : net.named_buffers()) {
    values.push_back(entry.tensor.to_vector<double>());
  }
  return values;
}

bool all_finite(const std::vector<std::vector<double>>& all) {
  for (const auto& values : all) {
    for (const double value : values) {
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

// A network that begins with a norm, so that some levels cast images to 16 bits, at least to bf16.
class NormFirst : public nn::Module {
 public:
  enum class Kind { kBatch, kBatchAddRelu, kLayer, kGroup, kInstance };

  explicit NormFirst(Kind kind) : kind_(kind) {
    add("batch", batch_);
    add("layer", layer_);
    add("group", group_);
    add("instance", instance_);
    add("fc", fc_);
  }

  Tensor forward(const Tensor& x) override { return fc_(flatten(normalized(x), 1)); }

 private:
  Tensor normalized(const Tensor& x) {
    switch (kind_) {
      case Kind::kBatch: return batch_.forward_relu(x);
      case Kind::kBatchAddRelu: return batch_.forward_add_relu(x, x * 0);
      case Kind::kLayer: return layer_(x);
      case Kind::kGroup: return group_(x);
      case Kind::kInstance: return instance_(x);
    }
    return x;
  }

  Kind kind_;
  nn::BatchNorm2d batch_{1};
  nn::LayerNorm layer_{Shape{8, 8}};
  nn::GroupNorm group_{1, 1};
  nn::InstanceNorm2d instance_{1};
  nn::Linear fc_{64, 3};
};

Batch huge_batch(std::uint64_t seed) {
  Batch batch = amp::small_batch(seed);
  batch.images = batch.images * kHugeImage;
  return batch;
}

template <class Net, class MakeNet>
void expect_skip(const MakeNet& make_net, const amp::TrainNetworkOptions& amp,
                 const std::optional<amp::LossScaleOptions>& scaling = std::nullopt) {
  Twins<Net> twins(make_net, kSgd, amp, scaling);
  twins.step(amp::small_batch(0));
  const auto before = buffers_of(twins.graph_net());
  const TrainStepResult result = twins.step(huge_batch(1));
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isnan(result.loss));
  EXPECT_EQ(buffers_of(twins.graph_net()), before);
  twins.expect_same_state();
  EXPECT_FALSE(twins.step(amp::small_batch(2)).skipped);
  twins.expect_same_state();
}

TEST(HugeInputs, EveryNormSkipsTheStep) {
  for (const auto kind :
       {NormFirst::Kind::kBatch, NormFirst::Kind::kBatchAddRelu, NormFirst::Kind::kLayer,
        NormFirst::Kind::kGroup, NormFirst::Kind::kInstance}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto make = [kind] { return std::make_unique<NormFirst>(kind); };
    expect_skip<NormFirst>(make, {.level = "O0"});
    expect_skip<NormFirst>(make, {.level = "O1", .dtype = DType::kBf16});
    expect_skip<NormFirst>(make, {.level = "O2", .dtype = DType::kBf16});
    expect_skip<NormFirst>(make, {.level = "O3", .dtype = DType::kBf16});
    expect_skip<NormFirst>(make, {.level = "O2", .dtype = DType::kBf16},
                           amp::LossScaleOptions{.init_scale = 256});
  }
}

// After a convolution, whose kernel may compute the statistics and whose reader may normalise.
TEST(HugeInputs, ABatchNormBehindAConvolutionSkipsTheStep) {
  for (const char* level : {"O0", "O2", "O3"}) {
    expect_skip<amp::SmallNet>(small_net, {.level = level, .dtype = DType::kBf16});
    expect_skip<amp::SmallNet>(small_net, {.level = level, .dtype = DType::kF16},
                               amp::LossScaleOptions{.init_scale = 256});
  }
}

TEST(HugeInputs, MicroBatchesSkipTheStep) {
  expect_skip<amp::SmallNet>(small_net,
                             {.level = "O2", .dtype = DType::kBf16, .step = {.micro_batches = 2}});
}

TEST(HugeInputs, ARecomputedNormSkipsTheStep) {
  const auto make = [] {
    auto net = small_net();
    nn::recompute(*net);
    return net;
  };
  expect_skip<amp::SmallNet>(make, {.level = "O2", .dtype = DType::kBf16});
}

// Channels with infinite statistics stay, others change, and the batch is counted.
TEST(HugeInputs, WithoutRestoringStatisticsAreFiniteNevertheless) {
  Twins<amp::SmallNet> twins(
      small_net, kSgd, {.level = "O2", .dtype = DType::kBf16, .step = {.restore_buffers = false}});
  twins.step(amp::small_batch(0));
  EXPECT_TRUE(twins.step(huge_batch(1)).skipped);
  EXPECT_TRUE(all_finite(buffers_of(twins.graph_net())));
  EXPECT_EQ(twins.graph_net().named_buffers()[2].tensor.item(), 2);
  twins.expect_same_state();
}

// A user's loop, with and without the scaler: the loss shows the NaN, and statistics stay finite.
TEST(HugeInputs, LoopsByHandSeeANan) {
  amp::SmallNet net;
  optim::Sgd sgd(net.parameters(), kSgd);
  amp::GradScaler scaler({.init_scale = 256});
  const auto before = net.parameters()[0].to_vector<float>();
  const Batch batch = huge_batch(1);
  const Tensor loss = amp::class_loss(net(batch.images), batch.labels);
  EXPECT_TRUE(std::isnan(loss.item()));
  scaler.scale(loss).backward();
  EXPECT_FALSE(scaler.step(sgd).stepped);
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), before);
  EXPECT_TRUE(all_finite(buffers_of(net)));
}

}  // namespace
}  // namespace mezzo::graph
