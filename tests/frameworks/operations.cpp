#include "tests/frameworks/operations.h"

#include <functional>
#include <map>

#include "mezzo/mezzo.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo::frameworks {
namespace {

using Tensors = std::vector<Tensor>;

const Shape kImage{2, 4, 6, 6}, kRows{6, 8}, kVector{8}, kChannels{4};
const Shape kLabels{};  // marks an input of class labels

struct Operation {
  std::vector<Shape> inputs;  // the first ones are activations
  std::function<Tensor(const Tensors&)> call;
  std::string op{};  // its name in the registry, if different
};

Operation unary(const Shape& shape, Tensor (*function)(const Tensor&), std::string op = {}) {
  return {{shape}, [=](const Tensors& t) { return function(t[0]); }, std::move(op)};
}

Operation binary(Tensor (*function)(const Tensor&, const Tensor&)) {
  return {{kRows, kRows}, [=](const Tensors& t) { return function(t[0], t[1]); }};
}

// A layer with a weight and a bias of these shapes.
template <class Function>
Operation layer(const Shape& x, const Shape& weight, const Shape& bias, Function function) {
  return {{x, weight, bias}, [=](const Tensors& t) { return function(t[0], t[1], t[2]); }};
}

using Operations = std::map<std::string, Operation>;

void add_layers(Operations& all) {
  all["conv2d"] = layer(kImage, {4, 4, 3, 3}, kChannels,
                        [](auto& x, auto& w, auto& b) { return conv2d(x, w, b); });
  all["conv_transpose2d"] = layer(kImage, {4, 4, 3, 3}, kChannels, [](auto& x, auto& w, auto& b) {
    return conv_transpose2d(x, w, b);
  });
  all["linear"] =
      layer(kRows, {8, 8}, kVector, [](auto& x, auto& w, auto& b) { return linear(x, w, b); });
  all["matmul"] = {{kRows, {8, 8}}, [](const Tensors& t) { return matmul(t[0], t[1]); }};
  all["batch_norm"] = layer(kImage, kChannels, kChannels,
                            [](auto& x, auto& w, auto& b) { return batch_norm(x, w, b).y; });
  all["layer_norm"] = layer(kRows, kVector, kVector,
                            [](auto& x, auto& w, auto& b) { return layer_norm(x, {8}, w, b); });
  all["group_norm"] = layer(kImage, kChannels, kChannels,
                            [](auto& x, auto& w, auto& b) { return group_norm(x, 2, w, b); });
  all["embedding"] = {{kRows, kLabels}, [](const Tensors& t) { return embedding(t[0], t[1]); }};
}

void add_pointwise(Operations& all) {
  all["relu"] = unary(kRows, [](const Tensor& x) { return relu(x); });
  all["leaky_relu"] = unary(kRows, [](const Tensor& x) { return leaky_relu(x); });
  all["gelu"] = unary(kRows, [](const Tensor& x) { return gelu(x); });
  all["silu"] = unary(kRows, [](const Tensor& x) { return silu(x); });
  all["sigmoid"] = unary(kRows, [](const Tensor& x) { return sigmoid(x); });
  all["tanh"] = unary(kRows, [](const Tensor& x) { return tanh(x); });
  all["clamp"] = unary(kRows, [](const Tensor& x) { return clamp(x, 0.2, 0.8); });
  all["abs"] = unary(kRows, [](const Tensor& x) { return abs(x); });
  all["exp"] = unary(kRows, [](const Tensor& x) { return exp(x); });
  all["log"] = unary(kRows, [](const Tensor& x) { return log(x); });
  all["pow"] = unary(kRows, [](const Tensor& x) { return pow(x, 3); });
  all["sqrt"] = unary(kRows, [](const Tensor& x) { return sqrt(x); });
  all["add_number"] = unary(
      kRows, [](const Tensor& x) { return x + 1; }, "affine");
  all["div_number"] = unary(kRows, [](const Tensor& x) { return x / 3; });
  all["add"] = binary([](const Tensor& a, const Tensor& b) { return a + b; });
  all["sub"] = binary([](const Tensor& a, const Tensor& b) { return a - b; });
  all["mul"] = binary([](const Tensor& a, const Tensor& b) { return a * b; });
  all["div"] = binary([](const Tensor& a, const Tensor& b) { return a / b; });
  all["maximum"] = binary([](const Tensor& a, const Tensor& b) { return maximum(a, b); });
  all["minimum"] = binary([](const Tensor& a, const Tensor& b) { return minimum(a, b); });
  all["where"] = binary([](const Tensor& a, const Tensor& b) { return where(gt(a, 0.5), a, b); });
  all["cat"] = binary([](const Tensor& a, const Tensor& b) { return cat({a, b}, 0); });
}

void add_reductions_and_images(Operations& all) {
  all["softmax"] = unary(kRows, [](const Tensor& x) { return softmax(x); });
  all["log_softmax"] = unary(kRows, [](const Tensor& x) { return log_softmax(x); });
  all["sum"] = unary(kRows, [](const Tensor& x) { return sum(x, {1}); });
  all["mean"] = unary(kRows, [](const Tensor& x) { return mean(x, {1}); });
  all["max"] = unary(kRows, [](const Tensor& x) { return max(x, {1}); });
  all["max_pool2d"] = unary(kImage, [](const Tensor& x) { return max_pool2d(x); });
  all["avg_pool2d"] = unary(kImage, [](const Tensor& x) { return avg_pool2d(x); });
  all["upsample_nearest2d"] =
      unary(kImage, [](const Tensor& x) { return upsample_nearest2d(x, 2); });
  all["upsample_bilinear2d"] =
      unary(kImage, [](const Tensor& x) { return upsample_bilinear2d(x, {.scale = 2}); });
}

void add_losses(Operations& all) {
  all["cross_entropy"] = {{kRows, kLabels},
                          [](const Tensors& t) { return cross_entropy(t[0], t[1]); }};
  all["mse_loss"] = binary([](const Tensor& a, const Tensor& b) { return mse_loss(a, b); });
  all["l1_loss"] = binary([](const Tensor& a, const Tensor& b) { return l1_loss(a, b); });
  all["smooth_l1_loss"] =
      binary([](const Tensor& a, const Tensor& b) { return smooth_l1_loss(a, b); });
  all["huber_loss"] = binary([](const Tensor& a, const Tensor& b) { return huber_loss(a, b); });
  all["l1_loss"].op = all["huber_loss"].op = "smooth_l1_loss";
  all["binary_cross_entropy"] =
      binary([](const Tensor& a, const Tensor& b) { return binary_cross_entropy(a, b); });
  all["binary_cross_entropy_with_logits"] = binary(
      [](const Tensor& a, const Tensor& b) { return binary_cross_entropy_with_logits(a, b); });
}

const Operations& operations() {
  static const Operations all = [] {
    Operations made;
    add_layers(made);
    add_pointwise(made);
    add_reductions_and_images(made);
    add_losses(made);
    return made;
  }();
  return all;
}

// Values from 0.1 to 0.9, where every operation is defined, with more digits than 16 bits have.
Tensors values_for(const Operation& operation) {
  Generator generator(1);
  Tensors values;
  for (const Shape& shape : operation.inputs) {
    values.push_back(shape.rank() == 0 ? arange(6, DType::kI64)
                                       : rand(shape, generator) * 0.8 + 0.1);
  }
  return values;
}

Tensors in_dtypes(Tensors values, const std::string& inputs, DType lower) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_lower = inputs != "f32" && (inputs != "mixed" || i == 0);
    if (values[i].dtype() == DType::kF32 && is_lower) values[i] = values[i].astype(lower);
  }
  return values;
}

Tensor in_region(const Operation& operation, const Tensors& values, const amp::Policy& policy) {
  const NoGrad no_grad;
  const amp::Autocast region(policy);
  return operation.call(values);
}

std::string answer_of(const Operation& operation, const std::string& inputs,
                      const amp::Policy& policy) {
  Tensors values = in_dtypes(values_for(operation), inputs, policy.lower);
  const Tensor result = in_region(operation, values, policy);
  const std::string found = name_of(result.dtype());
  if (inputs != "f32") return found;
  values[0] = values[0].astype(policy.lower).astype(DType::kF32);
  const Tensor of_rounded = in_region(operation, values, policy);
  const bool rounds = result.to_vector<double>() == of_rounded.to_vector<double>();
  const std::string source = name_of(rounds ? policy.lower : DType::kF32);
  return source == found ? found : concat(found, " from ", source);
}

}  // namespace

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto& [name, operation] : operations()) names.push_back(name);
  return names;
}

std::string answer(const std::string& operation, const std::string& inputs,
                   const amp::Policy& policy) {
  const Operation& found = operations().at(operation);
  try {
    return answer_of(found, inputs, policy);
  } catch (const ArgumentError&) {
    return "refused";
  }
}

std::string class_of(const std::string& operation, DType lower) {
  const Operation& found = operations().at(operation);
  const std::string& name = found.op.empty() ? operation : found.op;
  return name_of(find_op(name)->precision.of(lower));
}

}  // namespace mezzo::frameworks
