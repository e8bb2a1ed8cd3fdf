// CastPlan: the casts that a painted program needs, found without inserting them.
//
// The pass that paints uses the plan to find the cost of a paint, and the pass that inserts casts
// follows it, so both count the same casts.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// An input that must be cast to another dtype.
struct InputCast {
  std::size_t node = 0;  // the number of nodes stands for the program's outputs
  std::size_t input = 0;
  ValueId source = kNoValue;
  DType dtype = DType::kF32;  // no cast if the source has that dtype
  // Rounds to that dtype first, for parameters of a normalisation that are not kept in f32.
  std::optional<DType> rounded_to{};
};

// The number of casts, and the number of elements that they convert.
struct CastCost {
  std::size_t casts = 0;
  double elements = 0;
  bool operator<(const CastCost& other) const {
    return casts != other.casts ? casts < other.casts : elements < other.elements;
  }
};

struct CastPlan {
  std::vector<InputCast> inputs{};  // in the order of the nodes
  CastCost cost{};                  // with one cast per value and dtype, for all readers
};

// Plans casts for one program as its paints change. The program must outlive it and keep its nodes.
class CastPlanner {
 public:
  explicit CastPlanner(const Program& program);

  // The casts for the current paints. Throws ArgumentError if an operation does not accept the
  // dtypes of its inputs.
  CastPlan plan();
  // The dtype of each value in the last plan().
  const std::vector<DType>& dtypes() const { return dtypes_; }
  // The dtypes of a node's outputs for inputs of these dtypes; entries for absent inputs are
  // ignored. Throws like plan().
  const std::vector<DType>& output_dtypes(std::size_t node, const std::vector<DType>& inputs);

 private:
  using Inference = std::pair<std::vector<DType>, std::vector<DType>>;

  void visit(std::size_t node);
  void want_paint(const Node& node, std::vector<DType>& wanted) const;
  void want_promotion(const Node& node, std::vector<DType>& wanted) const;
  void plan_input(std::size_t node, std::size_t input, DType wanted);
  void round_parameters(std::size_t node);
  void add(InputCast cast);
  void count(ValueId source, std::vector<std::uint8_t>& done, DType dtype);
  ValueId source_for(ValueId value, DType dtype) const;

  const Program& program_;
  std::vector<std::size_t> makers_;
  std::vector<std::vector<Inference>> inferences_;  // by node: inferences so far

  CastPlan plan_{};
  std::vector<DType> dtypes_{};          // by value, with the casts in place
  std::vector<std::uint8_t> cast_{};     // by value, bit i: has a cast to DType i
  std::vector<std::uint8_t> rounded_{};  // by value, bit i: is rounded to DType i
};

}  // namespace mezzo::graph
