// The networks of the experiments, and the function that trains them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "mezzo/mezzo.h"

namespace numerics {

using mezzo::Tensor;

// Two convolutions (16 and 32 channels, 3x3, each with ReLU and 2x2 max pooling), 128 hidden units.
class Cnn final : public mezzo::nn::Module {
 public:
  Cnn(const mezzo::Shape& image, std::int64_t classes);

  Tensor forward(const Tensor& x) override { return layers(x).back(); }
  // The outputs of conv1, conv2, fc1 and fc2 before the ReLU; the last ones are the logits.
  std::vector<Tensor> layers(const Tensor& x);

 private:
  mezzo::nn::Conv2d conv1_;
  mezzo::nn::Conv2d conv2_;
  mezzo::nn::Linear fc1_;
  mezzo::nn::Linear fc2_;
};

// An MLP of inputs-256-classes with ReLU.
class Mlp final : public mezzo::nn::Module {
 public:
  Mlp(const mezzo::Shape& image, std::int64_t classes);
  Tensor forward(const Tensor& x) override;

 private:
  mezzo::nn::Linear fc1_;
  mezzo::nn::Linear fc2_;
};

inline constexpr std::int64_t kBatchSize = 128;

// How the loss is scaled.
enum class Scaling : std::uint8_t { kNone, kDynamic, kStatic };

struct Recipe {
  mezzo::amp::Policy policy{.level = mezzo::amp::Level::kO0};
  Scaling scaling = Scaling::kNone;
  double scale = 1;        // for Scaling::kStatic
  double loss_weight = 1;  // the loss is multiplied by this, the learning rate divided by it
  double lr = 0.02;
  double momentum = 0.9;
  mezzo::ParamUpdate param_update = mezzo::ParamUpdate::kMaster;
  std::int64_t epochs = 1;
  std::optional<std::int64_t> steps{};  // ends the training early
  std::uint64_t seed = 1;               // determines the order of the images
};

// Called before each step with the images and labels of the batch.
using BatchObserver = std::function<void(std::int64_t step, const mezzo::data::Batch& batch)>;

void train(mezzo::nn::Module& net, const mezzo::data::Dataset& images, const Recipe& recipe,
           const BatchObserver& observer = {});

// A new network, initialised from the seed.
template <class Net>
std::unique_ptr<Net> make(const mezzo::train::DataPair& data, std::uint64_t seed) {
  mezzo::manual_seed(seed);
  return std::make_unique<Net>(data.train->image_shape(), data.train->num_classes());
}

// The accuracy on the test images in percent.
double percent_right(mezzo::nn::Module& net, const mezzo::train::DataPair& data,
                     const mezzo::amp::Policy& policy);
// The accuracy of a new CNN after training, from the recipe's seed.
double trained_cnn(const mezzo::train::DataPair& data, const Recipe& recipe);

// f16 and bf16 in the experiments: everything but normalisation and losses is computed in 16 bits.
inline mezzo::amp::Policy computing_in(mezzo::DType dtype) {
  return {.level = mezzo::amp::Level::kO2, .lower = dtype};
}

}  // namespace numerics
