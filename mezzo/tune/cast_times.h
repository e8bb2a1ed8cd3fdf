// How long casts between dtypes take on this machine.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "mezzo/core/device.h"
#include "mezzo/core/dtype.h"

namespace mezzo::tune {

// Times casts when they are first asked for, each once.
class CastTimes {
 public:
  explicit CastTimes(Device device) : device_(device) {}

  // The shortest time of several, in ms; 0 between equal dtypes and for no elements.
  double ms(std::int64_t elements, DType from, DType to);

 private:
  double measure(std::int64_t elements, DType from, DType to) const;

  Device device_;
  std::map<std::tuple<std::int64_t, DType, DType>, double> known_;
};

}  // namespace mezzo::tune
