// The calls of a step with the ranges of their numbers, and which call each number comes from.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/step_observer.h"
#include "mezzo/numbers/value_range.h"

namespace mezzo::numbers {

// Where an operand comes from.
enum class Source : std::uint8_t {
  kCall,       // a call of the step
  kParameter,  // a parameter or a buffer of the network, or a copy of one
  kBatch,      // the batch
  kOther,      // a constant, or anything else that existed before the step
};

struct Operand {
  DType dtype = DType::kF32;
  std::string shape{};
  ValueRange range{};
  Source source = Source::kOther;
  std::size_t call = 0;  // kCall: the index of the call
  std::string name{};    // kParameter and kBatch: `fc.weight`, `input 0`
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
  // Gives the elements of a tensor that exists before the step a source and a name.
  void name(const Tensor& tensor, Source source, const std::string& name);
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
  // The memory of the elements: a later result in the same memory replaces an earlier one.
  using Place = std::pair<const void*, std::int64_t>;
  struct Known {
    Source source = Source::kOther;
    std::size_t call = 0;
    std::string name{};
  };

  static Place place_of(const Tensor& tensor);
  Known source_of(const Tensor& tensor);
  Operand operand(const Tensor& tensor);

  std::vector<TracedStepCall> calls_;
  std::map<Place, Known> known_;
  std::map<const void*, Known> storages_;  // those that exist before the step
};

}  // namespace mezzo::numbers
