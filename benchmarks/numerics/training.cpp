#include "benchmarks/numerics/training.h"

#include <utility>

namespace numerics {

using namespace mezzo;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

// The number of features after two layers of 2x2 max pooling.
std::int64_t features(const Shape& image) { return 32 * (image[1] / 4) * (image[2] / 4); }

amp::GradScaler make_scaler(const Recipe& recipe) {
  if (recipe.scaling == Scaling::kDynamic) return amp::GradScaler();
  if (recipe.scaling == Scaling::kNone) return amp::GradScaler({}, false);
  return amp::GradScaler({.init_scale = recipe.scale, .growth_interval = 0, .min_scale = 1});
}

}  // namespace

Cnn::Cnn(const Shape& image, std::int64_t classes)
    : conv1_(image[0], 16, 3, {.padding = 1}),
      conv2_(16, 32, 3, {.padding = 1}),
      fc1_(features(image), 128),
      fc2_(128, classes) {
  add("conv1", conv1_);
  add("conv2", conv2_);
  add("fc1", fc1_);
  add("fc2", fc2_);
}

std::vector<Tensor> Cnn::layers(const Tensor& x) {
  std::vector<Tensor> result;
  result.push_back(conv1_(x));
  result.push_back(conv2_(max_pool2d(relu(result[0]), {.kernel = 2})));
  result.push_back(fc1_(flatten(max_pool2d(relu(result[1]), {.kernel = 2}), 1)));
  result.push_back(fc2_(relu(result[2])));
  return result;
}

Mlp::Mlp(const Shape& image, std::int64_t classes) : fc1_(image.numel(), 256), fc2_(256, classes) {
  add("fc1", fc1_);
  add("fc2", fc2_);
}

Tensor Mlp::forward(const Tensor& x) { return fc2_(relu(fc1_(flatten(x, 1)))); }

void train(nn::Module& net, const data::Dataset& images, const Recipe& recipe,
           const BatchObserver& observer) {
  optim::Sgd sgd(net.parameters(), {.lr = recipe.lr / recipe.loss_weight,
                                    .momentum = recipe.momentum,
                                    .param_update = recipe.param_update});
  amp::GradScaler scaler = make_scaler(recipe);
  data::DataLoader loader(images,
                          {.batch_size = kBatchSize, .drop_remainder = true, .seed = recipe.seed});
  const std::int64_t steps = recipe.steps.value_or(recipe.epochs * loader.steps_per_epoch());
  data::Batch batch;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (!loader.next(batch)) loader.next(batch);  // the next epoch
    if (observer) observer(step, batch);
    const Tensor logits = amp::forward(net, batch.images, recipe.policy);
    const Tensor loss = cross_entropy(logits, batch.labels) * recipe.loss_weight;
    scaler.scale(loss).backward();
    scaler.step(sgd);
    scaler.update();
    sgd.zero_grad();
  }
}

double percent_right(nn::Module& net, const train::DataPair& data, const amp::Policy& policy) {
  train::EvaluateOptions options;  // not a temporary, whose members gcc 12 takes for unset
  options.batch_size = 500;
  options.policy = policy;
  return 100 * train::evaluate(net, *data.test, options).accuracy;
}

double trained_cnn(const train::DataPair& data, const Recipe& recipe) {
  const auto net = make<Cnn>(data, recipe.seed);
  train(*net, *data.train, recipe);
  return percent_right(*net, data, recipe.policy);
}

}  // namespace numerics
