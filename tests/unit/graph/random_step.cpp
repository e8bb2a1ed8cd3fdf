#include "tests/unit/graph/random_step.h"

#include <optional>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/layer_norm.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/pool.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"

namespace mezzo::graph {
namespace {

using TensorList = std::vector<Tensor>;

const Shape kMatrix{6, 8};
const Shape kImage{6, 8, 3, 3};

// The indices of RandomStep's own parameters.
enum Own : std::size_t { kSquare, kOther, kVector, kScale, kTaps, kPoint, kOwn };

TensorList make_own(std::uint64_t seed) {
  Generator generator(seed);
  TensorList own(kOwn);
  for (const Own matrix : {kSquare, kOther}) own[matrix] = randn({8, 8}, generator) * 0.4;
  own[kVector] = randn({8}, generator) * 0.5;
  own[kScale] = 1 + randn({8}, generator) * 0.2;
  own[kTaps] = randn({8, 8, 3, 3}, generator) * 0.15;
  own[kPoint] = randn({8, 8, 1, 1}, generator) * 0.4;
  for (Tensor& tensor : own) tensor.set_requires_grad(true);
  return own;
}

// The calls of one run. Its choices depend only on the seed.
class Forward {
 public:
  Forward(const RandomStepOptions& options, const TensorList& own, nn::BatchNorm& norm,
          nn::BatchNorm& matrix_norm, std::span<const Tensor> inputs)
      : mixed_(options.mixed),
        widened_(options.widened),
        chance_(options.seed),
        own_(own),
        norm_(norm),
        matrix_norm_(matrix_norm),
        matrices_{inputs[0]},
        images_{inputs[1]} {
    for (int i = 0; i < options.calls; ++i) add_call();
  }

  Tensor loss(const Tensor& labels) {
    const amp::Autocast region(DType::kBf16, mixed_ && flip() && !widened_);
    const Tensor logits = linear(matrix(), own_[kSquare]);
    const Tensor picture = mean(image() * image());
    if (flip()) return cross_entropy(logits, labels) + picture.astype(DType::kF32);
    const Tensor picked = one_hot(labels, 8) * log_softmax(logits.astype(DType::kF32));
    return -mean(sum(picked, {1})) + picture.astype(DType::kF32) * 0.5;
  }

  // Some of the latest values.
  TensorList values() { return {matrices_.back().detach(), images_.back().detach(), image() * 2}; }

 private:
  std::uint64_t below(std::uint64_t n) { return chance_.below(n); }
  bool flip() { return below(2) == 0; }
  DType any_lower() { return flip() ? DType::kBf16 : DType::kF16; }
  const Tensor& matrix() { return matrices_[below(matrices_.size())]; }
  const Tensor& image() { return images_[below(images_.size())]; }

  // Occasionally drops one of the last values, so that not all of them live to the end.
  static void keep(TensorList& values, Tensor value) {
    if (values.size() > 4) values.erase(values.begin() + 1);
    values.push_back(std::move(value));
  }

  void add_call() {
    std::optional<amp::Autocast> region;
    if (mixed_ && below(3) > 0) {
      const DType lower = any_lower();
      region.emplace(lower, below(4) > 0 && !widened_);
    }
    if (below(3) == 0) {
      keep(images_, image_call());
    } else {
      keep(matrices_, flip() ? matrix_product() : matrix_call());
    }
  }

  Tensor matrix_product() {
    const Tensor& weight = own_[flip() ? kSquare : kOther];
    const Tensor& bias = own_[kVector];
    switch (below(9)) {
      case 0: return linear(matrix(), weight, bias);
      case 1: return linear(matrix(), weight) + bias;
      case 2: return relu(linear(matrix(), weight, bias));
      case 3: return gelu(matmul(matrix(), weight) + bias);
      case 4: return matmul(softmax(matmul(matrix(), transpose(matrix()))), matrix());
      case 5: return relu(matrix_norm_(linear(matrix(), weight)));
      case 6: return layer_norm(linear(matrix(), weight), {8}, own_[kScale], bias);
      case 7: return tanh(matmul(matrix(), transpose(weight)));
      default: return matrix_norm_.forward_add_relu(linear(matrix(), weight), same(matrix()));
    }
  }

  Tensor matrix_call() {
    switch (below(19)) {
      case 0: return relu(matrix());
      case 1: return sigmoid(matrix()) * matrix();
      case 2: return matrix() + matrix();
      case 3: return matrix() - own_[kVector];
      case 4: return softmax(matrix()) * 4;
      case 5: return exp(tanh(matrix()));
      case 6: return log(1 + matrix() * matrix());
      case 7: return layer_norm(matrix(), {8});
      case 8: return cat({slice(matrix(), 1, 3, 8), slice(matrix(), 1, 0, 3)}, 1);
      case 9: return transpose(reshape(matrix(), {8, 6}));
      case 10: return dropout(matrix(), 0.25);
      case 11: return matrix() / (1 + max(matrix() * matrix(), {1}, true));
      case 12: return mean(image(), {2, 3});
      case 13: return rounded(matrix());
      case 14: return changed_in_place();
      case 15: return where(gt(matrix(), own_[kVector]), matrix(), abs(matrix()));
      case 16: return masked_fill(maximum(matrix(), own_[kScale]), lt(matrix(), 0), -0.1);
      case 17: return mean(max_pool2d(relu(image()), {.kernel = 2}), {2, 3});
      default: return matrix().detach() * own_[kScale];
    }
  }

  Tensor image_call() {
    switch (below(14)) {
      case 0: return conv2d(image(), own_[kTaps], own_[kVector], {.padding = 1});
      case 1: return conv2d(image(), own_[kPoint]);
      case 2: return relu(conv2d(image(), own_[kPoint], own_[kVector]));
      case 3: return norm_(conv2d(image(), own_[kTaps], Tensor(), {.padding = 1}));
      case 4: return relu(norm_(conv2d(image(), own_[kPoint])));
      case 5: return relu(norm_(image()) + same(image()));
      case 6: return norm_.forward_relu(image());
      case 7: return norm_.forward_add_relu(image(), same(image()));
      case 8: return max_pool2d(image(), {.kernel = 3, .stride = 1, .padding = 1});
      case 9: return to_format(image(), flip() ? Format::kChannelsLast : Format::kContiguous);
      case 10: return image() + reshape(matrix(), {6, 8, 1, 1});
      case 11: return tanh(image()) * expand(reshape(matrix(), {6, 8, 1, 1}), kImage);
      case 12: return permute(image(), {0, 1, 3, 2});
      default: return rounded(image());
    }
  }

  // Residuals have the dtype of the values to which they are added, even outside of regions.
  static Tensor same(const Tensor& x) { return x.astype(DType::kF32); }

  // Casts to 16 bits, with or without a cast back.
  Tensor rounded(const Tensor& x) {
    if (!mixed_) return x * -1.5;
    const DType lower = any_lower();
    const Tensor narrow = x.astype(widened_ ? DType::kF32 : lower);
    return flip() ? narrow.astype(DType::kF32) : narrow * 1;
  }

  Tensor changed_in_place() {
    const Tensor sums = matrix().detach().astype(DType::kF32) * 0.5;
    add_into(sums, matrix().detach().astype(DType::kF32));
    const Tensor before = sums * 2;
    add_into(sums, before);
    return sums + before;
  }

  bool mixed_;
  bool widened_;
  Generator chance_;
  const TensorList& own_;
  nn::BatchNorm& norm_;
  nn::BatchNorm& matrix_norm_;
  TensorList matrices_;
  TensorList images_;
};

}  // namespace

RandomStep::RandomStep(const RandomStepOptions& options)
    : options_(options),
      own_(make_own(options.seed)),
      sgd_(parameters(), {.lr = 0.05, .momentum = 0.9}) {}

TensorList RandomStep::parameters() const {
  TensorList all = own_;
  for (const nn::BatchNorm* norm : {static_cast<const nn::BatchNorm*>(&norm_),
                                    static_cast<const nn::BatchNorm*>(&matrix_norm_)}) {
    all.insert(all.end(), {norm->weight(), norm->bias()});
  }
  return all;
}

TensorList RandomStep::state() const {
  TensorList all = parameters();
  for (const nn::BatchNorm* norm : {static_cast<const nn::BatchNorm*>(&norm_),
                                    static_cast<const nn::BatchNorm*>(&matrix_norm_)}) {
    all.insert(all.end(), {norm->running_mean(), norm->running_var()});
  }
  return all;
}

TensorList RandomStep::operator()(std::span<const Tensor> inputs) {
  Forward forward(options_, own_, norm_, matrix_norm_, inputs);
  TensorList results = forward.values();
  results.push_back(forward.loss(inputs[2]));
  results.back().backward();
  for (const Tensor& parameter : parameters()) {
    if (parameter.grad().defined()) results.push_back(parameter.grad());
  }
  sgd_.step();
  sgd_.zero_grad();
  return results;
}

TensorList RandomStep::batch(std::uint64_t seed) {
  Generator generator(seed);
  std::vector<std::int64_t> labels(6);
  for (std::int64_t& label : labels) label = static_cast<std::int64_t>(generator.below(8));
  return {randn(kMatrix, generator), randn(kImage, generator), from_values(labels, {6})};
}

}  // namespace mezzo::graph
