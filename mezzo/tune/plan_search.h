// The settings that a network's precision is chosen among: the levels, and the plans that solve for
// the measured costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/tune/cast_times.h"
#include "mezzo/tune/measure.h"
#include "mezzo/tune/prober.h"
#include "mezzo/tune/prove.h"
#include "mezzo/tune/solve.h"

namespace mezzo::tune {

class PlanSearch {
 public:
  struct Options {
    Objective objective = Objective::kTime;
    std::optional<double> error_budget{};  // unset: that of level auto
    std::optional<std::int64_t> memory_budget{};
    Batch example{};  // to see what a level computes in
    TellProgress tell{};
  };

  // All must outlive this object.
  PlanSearch(amp::TrainStep& step, Prober& prober, const Measurements& measurements,
             CastTimes& casts, Options options);

  // Finds the budget, measures the errors of the levels, and solves for plans.
  void run();

  double error_budget() const { return budget_; }
  const std::string& budget_from() const { return budget_from_; }
  std::vector<ProvedSetting> take_settings() { return std::move(settings_); }

 private:
  void find_budget();
  void add_levels();
  void add_level(const amp::Policy& policy, const std::string& name);
  void add_plan(double budget, const std::string& name);
  ProvedSetting setting_of(const std::string& name, const std::vector<Choice>& choices);
  void predict(ProvedSetting& setting, const std::vector<Choice>& choices) const;
  double calibration() const;
  double bytes_limit() const;
  std::vector<Choice> united(std::vector<Choice> choices) const;

  amp::TrainStep& step_;
  Prober& prober_;
  const Measurements& m_;
  Options options_;
  SolveProblem problem_;
  double budget_ = 0;
  std::string budget_from_;
  std::vector<ProvedSetting> settings_;
};

}  // namespace mezzo::tune
