#include "mezzo/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::optim {

bool is_rate(double value) {
  return value >= 0 && value <= double{std::numeric_limits<float>::max()};
}

LearningRate::LearningRate(std::vector<double> rates) : rates_(std::move(rates)) {
  check_arg(!rates_.empty(), "lr", "an array of learning rates needs at least one. Give a number");
}

double LearningRate::at(std::int64_t update) const {
  check_arg(update >= 0, "lr", "there is no update ", update, ". The first one is 0");
  return rates_[std::min(static_cast<std::size_t>(update), rates_.size() - 1)];
}

bool LearningRate::is_finite() const {
  return std::ranges::all_of(rates_, [](double rate) { return is_rate(std::abs(rate)); });
}

double LearningRate::lowest() const {
  double lowest = rates_.front();
  for (const double rate : rates_) {
    if (std::isnan(rate)) return rate;
    lowest = std::min(lowest, rate);
  }
  return lowest;
}

}  // namespace mezzo::optim
