// A small network of modules that need only arithmetic operations, and helpers for the tests.
#pragma once

#include <string>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/arithmetic.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {

// Computes x * weight, and counts its calls in a buffer.
class Scale : public Module {
 public:
  explicit Scale(double weight = 1) : weight_(full({2}, weight)) {
    add_parameter("weight", weight_);
    add_buffer("calls", calls_);
  }
  Tensor forward(const Tensor& x) override {
    path_seen = current_module_path();
    calls_.mutable_data<std::int64_t>()[0] += 1;
    check_arg(x.shape() == Shape{2}, "scale", "x is ", x);
    return x * weight_;
  }

  std::string path_seen;  // during the last forward pass

 private:
  Tensor weight_;
  Tensor calls_ = zeros({}, DType::kI64);
};

class Pair : public Module {
 public:
  Pair() {
    add("first", first);
    add_parameter("shift", shift_);
    add("second", second);
  }
  Tensor forward(const Tensor& x) override { return second(first(x)) + shift_; }

  Scale first{2};
  Scale second{3};

 private:
  Tensor shift_ = ones({2});
};

class ExampleNet : public Module {
 public:
  ExampleNet() {
    add("stem", stem);
    add("body", body);
  }
  Tensor forward(const Tensor& x) override { return body(stem(x)); }

  Scale stem;
  Pair body;
};

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

}  // namespace mezzo::nn
