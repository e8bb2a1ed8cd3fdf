// Compares two runs of one step, call by call: where the first number differs, and where an error
// is larger than the dtypes explain.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/numbers/step_record.h"
#include "mezzo/numbers/tensor_difference.h"

namespace mezzo::numbers {

// Why a result of run B is not that of run A.
enum class Reason : std::uint8_t {
  kEqual,       // it is, bit for bit
  kPrecision,   // a call or its inputs have other dtypes
  kInputs,      // its inputs differ already
  kSameInputs,  // dtypes and inputs are equal, bit for bit: another kernel or order of sums
};

// A result that both runs have. Gradients are compared after each was divided by its loss scale.
struct ComparedResult {
  ResultId id{};
  Shape shape{};
  DType dtype_a = DType::kF32;
  DType dtype_b = DType::kF32;
  TensorDifference difference{};  // of b from a
  double error = 0;               // its relative(); 0 for integers
  double input_error = 0;         // the largest among its inputs
  Reason reason = Reason::kEqual;
  OwnError own{};  // the larger one of those that the two runs' calls added themselves
  // The own error is beyond what its dtypes explain; or the two results come from equal inputs, and
  // are further apart than rounding and the number of terms explain.
  bool is_jump = false;
};

// A tensor that both runs read or whose gradient both have: `conv1.weight`.
struct ComparedTensor {
  std::string name{};
  DType dtype_a = DType::kF32;
  DType dtype_b = DType::kF32;
  TensorDifference difference{};
  double error = 0;
};

// A result that only one run has, as a cast of a mixed-precision region, or whose shapes differ.
struct NotCompared {
  ResultId id{};
  std::string why{};  // `only in B`
};

struct Comparison {
  RecordedStep a{};
  RecordedStep b{};
  std::vector<ComparedResult> results{};    // in the order in which B computed them
  std::vector<ComparedTensor> sources{};    // parameters, buffers, the batch
  std::vector<ComparedTensor> gradients{};  // of the parameters
  std::vector<NotCompared> not_compared{};
  // Indices into `results`.
  std::optional<std::size_t> first_difference{};
  std::optional<std::size_t> first_same_inputs{};  // the first of Reason::kSameInputs
  std::optional<std::size_t> first_jump{};
  std::size_t measured = 0;  // how many own errors are known

  // Everything that was compared is equal bit for bit.
  bool is_equal() const;
  // The result with the largest error, of the forward or of the backward pass.
  std::optional<std::size_t> largest(bool is_backward) const;
  // What was found, a line each, for people.
  std::vector<std::string> lines() const;
};

// Compares the results of a run B, as they are made, with the record of a run A.
class RunComparer {
 public:
  // The record must outlive this object.
  explicit RunComparer(const StepRecord& a);

  void begin(double scale) { scale_b_ = scale; }
  void add_source(const RecordedSource& source);
  void add_call(const RecordedCall& call);
  void add_gradient(const NamedTensor& gradient);
  Comparison finish(const RecordedStep& b);

 private:
  // What is known of an operand of B: whether it is A's, bit for bit and in its dtype.
  struct Known {
    bool is_same = true;
    double error = 0;
  };
  struct Place {
    std::size_t call = 0;
    std::size_t result = 0;
    bool is_met = false;  // B has it, too
  };

  Known inputs_of(const RecordedCall& call) const;
  Known compare(const RecordedCall& call, const RecordedResult& result, const Known& inputs);
  ComparedResult differences(const RecordedResult& a, const RecordedResult& b) const;
  void add(ComparedResult compared);
  void list_missing();

  const StepRecord& a_;
  double scale_b_ = 1;
  std::map<ResultId, Place> places_;
  std::map<std::string, const RecordedSource*> sources_a_;
  std::map<std::string, const NamedTensor*> gradients_a_;
  std::map<std::string, Known> sources_;
  std::vector<std::vector<Known>> known_;  // of each call of B and each of its results
  Comparison comparison_;
};

// Both in memory or in dumps.
Comparison compare_records(const StepRecord& a, const StepRecord& b);

// One side of a comparison: the network, and a function that makes one step of it, observed by the
// observer, with amp::TrainStepOptions::observers or by make_step().
struct StepRun {
  nn::Module& net;
  std::function<void(amp::StepObserver& observer)> make{};
  std::string title{};
};

// Makes a step of each run and compares them. A is the reference that errors are relative to; its
// results are kept in memory until B's have been compared. If one computes in f64 and the other in
// f32, that one's own errors are measured in f64, too.
//
//   const auto run_of = [&](nn::Module& net) -> numbers::StepRun {
//     return {net, [&](amp::StepObserver& observer) {
//               numbers::make_step(net, loss, batch, observer);
//             }};
//   };
//   const numbers::Comparison found = numbers::compare_runs(run_of(a), run_of(b));
//
// Begin both from the same weights, the same batch and the same position of the random numbers.
Comparison compare_runs(const StepRun& a, const StepRun& b);
// With a record of A, as of a dump.
Comparison compare_run(const StepRecord& a, const StepRun& b,
                       Measured measured = Measured::k16Bits);

// The first sentence of a comparison's lines for a result: where it is, and by how much.
std::string text_of(const ComparedResult& result);

}  // namespace mezzo::numbers
