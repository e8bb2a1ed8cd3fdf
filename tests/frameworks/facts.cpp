#include "tests/frameworks/facts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "mezzo/mezzo.h"

namespace mezzo::frameworks {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Formats numbers as ask_pytorch.py writes them.
std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (value == 0) return "0";  // of either sign
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) > 1e3 ? "%.0e" : "%g", value);
  return text;
}

using Function = std::function<Tensor(const Tensor&)>;

// The derivative of that order; order 0 is the value.
std::string derivative(const Function& function, double at, int order) {
  const Tensor x = full({}, at).set_requires_grad(true);
  Tensor y = function(x);
  for (int i = 0; i < order; ++i)
    y = grad(std::vector{y}, std::vector{x}, {}, {.create_graph = true})[0];
  return text_of(y.item());
}

std::string list_of(const Tensor& values) {
  std::string text;
  for (const float value : values.to_vector<float>()) {
    text += concat(text.empty() ? "" : ", ", value == 0 ? "0.0" : text_of(value));
  }
  return concat("[", text, "]");
}

std::string labels_of_one_column() {
  cross_entropy(zeros({4, 3}), zeros({4, 1}, DType::kI64));
  return "taken";
}

// The second derivative of a loss whose target is as far away as possible.
std::string bend_of_cross_entropy(double p) {
  return derivative([p](const Tensor& x) { return binary_cross_entropy(x, full({}, 1 - p)); }, p,
                    2);
}

std::string state_keys() {
  std::vector<std::string> keys;
  for (const auto& [key, value] : amp::GradScaler().state_dict()) keys.push_back(key);
  std::ranges::sort(keys);
  std::string text;
  for (const std::string& key : keys) text += concat(text.empty() ? "" : " ", key);
  return text;
}

std::string running_mean_of_ones() {
  nn::BatchNorm2d norm(1, {.momentum = 0.9});
  norm(ones({4, 1, 2, 2}));
  return text_of(norm.running_mean().item());
}

const std::map<std::string, std::function<std::string()>>& questions() {
  const Function gelu_of = [](const Tensor& x) { return gelu(x); };
  const Function silu_of = [](const Tensor& x) { return silu(x); };
  static const std::map<std::string, std::function<std::string()>> all = {
      {"dropout of p = 1", [] { return list_of(dropout(ones({2}), 1)); }},
      {"labels of [n, 1]", labels_of_one_column},
      {"keys of the scaler's state", state_keys},
      {"running mean of ones, momentum 0.9", running_mean_of_ones},
      {"gelu(-inf)", [=] { return derivative(gelu_of, -kInf, 0); }},
      {"silu(-inf)", [=] { return derivative(silu_of, -kInf, 0); }},
      {"gradient of gelu at inf", [=] { return derivative(gelu_of, kInf, 1); }},
      {"gradient of gelu at -inf", [=] { return derivative(gelu_of, -kInf, 1); }},
      {"gradient of silu at inf", [=] { return derivative(silu_of, kInf, 1); }},
      {"gradient of silu at -inf", [=] { return derivative(silu_of, -kInf, 1); }},
      {"second derivative of binary_cross_entropy at 0", [] { return bend_of_cross_entropy(0); }},
      {"second derivative of binary_cross_entropy at 1", [] { return bend_of_cross_entropy(1); }},
  };
  return all;
}

}  // namespace

std::string fact(const std::string& question) {
  try {
    return questions().at(question)();
  } catch (const ArgumentError&) {
    return "refused";
  }
}

}  // namespace mezzo::frameworks
