// LearningRate: a constant, or one value for each update.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace mezzo::optim {

// True for values from 0 on that are finite in f32. Weights are f32, where a larger rate would be
// infinite.
bool is_rate(double value);

// The type of every optimizer's `lr`: `{.lr = 0.1}`, or the rates of updates 0, 1, ... from
// train::Schedule::values(). The last rate applies to all later updates.
class LearningRate {
 public:
  LearningRate(double rate) : rates_{rate} {}  // NOLINT(google-explicit-constructor): stands for it
  // Throws ArgumentError for an empty list.
  LearningRate(std::vector<double> rates);  // NOLINT(google-explicit-constructor): stands for them
  LearningRate(std::initializer_list<double> rates) : LearningRate(std::vector<double>(rates)) {}

  // Throws ArgumentError for a negative update.
  double at(std::int64_t update) const;
  // The lowest rate; NaN if one of them is NaN.
  double lowest() const;
  bool is_finite() const;  // all of them, in f32
  bool is_constant() const { return rates_.size() == 1; }

 private:
  std::vector<double> rates_;
};

}  // namespace mezzo::optim
