#include "mezzo/models/stream.h"

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dropout.h"

namespace mezzo::models {

Tensor drop_stream(const Tensor& x, double p, bool training) {
  const WithoutPrecisionHook outside;
  return dropout(x, p, training);
}

}  // namespace mezzo::models
