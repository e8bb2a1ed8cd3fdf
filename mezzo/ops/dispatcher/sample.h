// Calls that an operation is tested with, beside its definition: inputs, and wrong ones with their
// messages. Tests and definitions include this; what only calls operations does not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/core/shape.h"
#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

// One input of a sample call.
struct SampleInput {
  Shape shape;
  double low = -1;  // values are uniform in [low, high)
  double high = 1;
  bool integer = false;          // i64 values in [low, high) instead
  bool absent = false;           // an optional input that is not given
  bool boolean = false;          // kBool values instead; low and high are ignored
  std::optional<DType> dtype{};  // always of this dtype

  // The dtype of its values in a call with floating-point inputs of the given dtype.
  DType dtype_in(DType floating) const {
    if (dtype.has_value()) return *dtype;
    if (boolean) return DType::kBool;
    return integer ? DType::kI64 : floating;
  }
};

// A sample call for the tests' sweeps, which vary op, dtype and layout.
struct Sample {
  std::vector<SampleInput> inputs{};
  Attrs attrs{};
  std::int64_t terms = 1;  // terms of the sum for one output element; sets the tolerance
  double magnitude = 1;    // bound of one term's absolute value
  // For 16-bit operands: how many values of about `magnitude` are rounded to their dtype on the way
  // to an output.
  double lower_roundings = 0;
};

// A call that must fail, and a part of its message.
struct ErrorSample {
  std::vector<SampleInput> inputs{};
  Attrs attrs{};
  const char* message = "";
};

}  // namespace mezzo
