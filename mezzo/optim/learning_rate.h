// LearningRate: a number, or one for each update.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace mezzo::optim {

// True for 0 and more, if finite in f32: weights are, and to them a larger rate is an infinity.
bool is_rate(double value);

// What the `lr` of every optimizer is: `{.lr = 0.1}`, or the rates of update 0, 1, ... as
// train::Schedule::values() makes them. The last one goes on.
class LearningRate {
 public:
  LearningRate(double rate) : rates_{rate} {}  // NOLINT(google-explicit-constructor): stands for it
  // Throws ArgumentError if there are none.
  LearningRate(std::vector<double> rates);  // NOLINT(google-explicit-constructor): stands for them
  LearningRate(std::initializer_list<double> rates) : LearningRate(std::vector<double>(rates)) {}

  // Throws ArgumentError for a negative update.
  double at(std::int64_t update) const;
  // NaN if one of them is.
  double lowest() const;
  bool is_finite() const;  // all of them, in f32
  bool is_constant() const { return rates_.size() == 1; }

 private:
  std::vector<double> rates_;
};

}  // namespace mezzo::optim
