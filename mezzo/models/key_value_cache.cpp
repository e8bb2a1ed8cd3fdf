#include "mezzo/models/key_value_cache.h"

#include "mezzo/core/error.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {

void KeyValues::append(const Tensor& more_keys, const Tensor& more_values) {
  if (!keys.defined()) {
    keys = more_keys;
    values = more_values;
    return;
  }
  check_arg(keys.size(0) == more_keys.size(0), "KeyValues", "the cache is of ", keys.size(0),
            " sequences, the tokens are of ", more_keys.size(0), ". Use a cache per batch");
  keys = cat({keys, more_keys}, 2);
  values = cat({values, more_values}, 2);
}

std::int64_t KeyValueCache::length() const {
  return layers_.empty() ? 0 : layers_.front().length();
}

KeyValues& KeyValueCache::layer(std::size_t i) {
  if (i >= layers_.size()) layers_.resize(i + 1);
  return layers_[i];
}

}  // namespace mezzo::models
