// The calls of a step with the ranges of their numbers, and which call each number comes from.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/step_observer.h"
#include "mezzo/numbers/operand_sources.h"
#include "mezzo/numbers/value_range.h"

namespace mezzo::numbers {

struct Operand {
  DType dtype = DType::kF32;
  std::string shape{};
  ValueRange range{};
  Source source = Source::kOther;  // these three as in Origin
  std::size_t call = 0;
  std::string name{};
};

struct TracedStepCall {
  // In a captured step a kernel may do several calls, and only the last result is written: then
  // this is the first of them, where its numbers begin.
  CallId id{};
  std::string and_then{};         // the names of the others: `relu#1`; empty if there are none
  std::vector<Operand> inputs{};  // those that are defined
  std::vector<Operand> outputs{};

  bool has_bad_output() const;
  bool has_bad_input() const;
};

// Collects the calls of a step. Views compute nothing and are left out: their elements come from
// where those of their input do.
class CallTrace {
 public:
  // Where elements come from; what exists before the step is to be named before its calls.
  OperandSources& sources() { return sources_; }
  void add(const amp::ObservedStepCall& call);
  // Forgets calls and names.
  void clear();

  const std::vector<TracedStepCall>& calls() const { return calls_; }

  // The call in which the infinities and NaN began that reach the end of the step, as the loss or a
  // gradient: its inputs are finite, or come from outside of the step. None if no call has such a
  // result. An infinity that a later call has absorbed, such as that of a mask before a softmax,
  // does not count unless it is the only one.
  std::optional<std::size_t> origin() const;

 private:
  Operand operand(const Tensor& tensor);

  std::vector<TracedStepCall> calls_;
  OperandSources sources_;
};

}  // namespace mezzo::numbers
