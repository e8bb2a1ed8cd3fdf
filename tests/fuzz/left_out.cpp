// Stubs for what the readers name from parts of the library that the fuzzers leave out: there are
// no devices but the CPU, no models, no metrics, and of operations one that plans may name.
#include "mezzo/core/device_backend.h"
#include "mezzo/models/model.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/train/metrics.h"

namespace mezzo {

DeviceBackend* find_device_backend(DeviceType /*type*/) { return nullptr; }

std::span<const RegisteredOp> registered_ops() { return {}; }

const OpDef* find_op(std::string_view name) {
  static const OpDef op{.name = "relu"};
  return name == op.name ? &op : nullptr;
}

std::vector<std::string> models::names() { return {}; }
models::ModelConfig models::usual_config(std::string_view /*name*/) { return {}; }
bool models::predicts_tokens(std::string_view /*name*/) { return false; }

std::string train::metric_name(std::string_view name) { return std::string(name); }

}  // namespace mezzo
