#include "tests/frameworks/scaling.h"

#include <functional>
#include <limits>
#include <map>

#include "mezzo/mezzo.h"

namespace mezzo::frameworks {
namespace {

double input_of(char step) {
  if (step == 'I') return std::numeric_limits<double>::infinity();
  if (step == 'N') return std::numeric_limits<double>::quiet_NaN();
  return 0x1p-10;  // finite when multiplied by any scale
}

Trajectory run(amp::GradScaler scaler, const std::string& steps) {
  const Tensor weight = ones({1}).set_requires_grad(true);
  optim::Sgd optimizer({weight}, {.lr = 1e-3});
  Trajectory found;
  for (const char step : steps) {
    scaler.scale(sum(weight * full({1}, input_of(step)))).backward();
    found.taken += scaler.step(optimizer).stepped ? 'T' : 'S';
    scaler.update();
    found.scales.push_back(scaler.get_scale());
    optimizer.zero_grad();
  }
  return found;
}

amp::LossScaleOptions preset(const char* name, const ScaleOptions& options) {
  amp::LossScaleOptions made = amp::loss_scale_preset(name);
  made.init_scale = options.init;
  made.growth_factor = options.growth;
  made.backoff_factor = options.backoff;
  made.growth_interval = static_cast<std::int64_t>(options.interval);
  return made;
}

amp::DynamicLossScaleManager manager(const ScaleOptions& options) {
  return amp::DynamicLossScaleManager(options.init, static_cast<std::int64_t>(options.growth),
                                      static_cast<std::int64_t>(options.interval));
}

Trajectory run_manager(amp::LossScaleManager manager, const std::string& steps) {
  Trajectory found;
  for (const char step : steps) {
    manager.update_loss_scale(step != 'F');
    found.scales.push_back(manager.get_loss_scale());
  }
  return found;
}

Trajectory run_loss_scaler(const ScaleOptions& options, const std::string& steps) {
  amp::DynamicLossScaler scaler(options.init, static_cast<std::int64_t>(options.growth),
                                static_cast<std::int64_t>(options.interval));
  Trajectory found;
  for (const char step : steps) {
    const bool finite = amp::all_finite(std::vector{full({1}, input_of(step))});
    scaler.adjust(finite);
    found.taken += finite ? 'T' : 'S';
    found.scales.push_back(scaler.scale_value());
  }
  return found;
}

using Run = std::function<Trajectory(const ScaleOptions&, const std::string&)>;

const std::map<std::string, Run>& scalers() {
  static const std::map<std::string, Run> all = {
      {"torch.amp.GradScaler",
       [](auto& o, auto& steps) { return run(amp::GradScaler(preset("pytorch", o)), steps); }},
      {"megengine.amp.GradScaler",
       [](auto& o, auto& steps) { return run(amp::GradScaler(preset("megengine", o)), steps); }},
      {"oneflow.amp.GradScaler",
       [](auto& o, auto& steps) {
         const auto interval = static_cast<std::int64_t>(o.interval);
         return run(amp::oneflow_grad_scaler(o.init, o.growth, o.backoff, interval), steps);
       }},
      {"oneflow.amp.StaticGradScaler",
       [](auto& o, auto& steps) { return run(amp::static_grad_scaler(o.init), steps); }},
      {"mindspore.amp.DynamicLossScaler", run_loss_scaler},
      {"mindspore.amp.DynamicLossScaleManager",
       [](auto& o, auto& steps) { return run_manager(manager(o), steps); }},
      {"mindspore.nn.DynamicLossScaleUpdateCell",
       [](auto& o, auto& steps) { return run(amp::GradScaler(manager(o)), steps); }},
      {"mindspore.amp.FixedLossScaleManager",
       [](auto& o, auto& steps) { return run_manager(amp::FixedLossScaleManager(o.init), steps); }},
  };
  return all;
}

}  // namespace

Trajectory trajectory(const std::string& scaler, const ScaleOptions& options,
                      const std::string& steps) {
  try {
    return scalers().at(scaler)(options, steps);
  } catch (const ArgumentError&) {
    return {.refused = true};
  }
}

ScaleOptions default_options(const std::string& scaler) {
  const std::string framework = scaler.substr(0, scaler.find('.'));
  const auto found = amp::loss_scale_preset(framework == "torch" ? "pytorch" : framework);
  return {found.init_scale, found.growth_factor, found.backoff_factor,
          static_cast<double>(found.growth_interval)};
}

}  // namespace mezzo::frameworks
