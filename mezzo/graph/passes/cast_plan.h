// CastPlan: the casts that a painted program needs, found without putting them in.
//
// The pass that paints asks what a paint would cost, the pass that inserts does what the plan says:
// so both count the same casts.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// An input that is to be read in another dtype.
struct InputCast {
  std::size_t node = 0;  // the number of nodes for what the program returns
  std::size_t input = 0;
  ValueId source = kNoValue;
  DType dtype = DType::kF32;  // the source as it is if it has that dtype already
  // First rounded to that dtype: what a normalisation's parameters lose where they are not kept.
  std::optional<DType> rounded_to{};
};

// How many casts, then how many elements they convert.
struct CastCost {
  std::size_t casts = 0;
  double elements = 0;
  bool operator<(const CastCost& other) const {
    return casts != other.casts ? casts < other.casts : elements < other.elements;
  }
};

struct CastPlan {
  std::vector<InputCast> inputs{};  // in the order of the nodes
  CastCost cost{};                  // with one cast per value and dtype, whoever reads it
};

// Plans for one program under changing paints. The program must outlive it and keep its nodes.
class CastPlanner {
 public:
  explicit CastPlanner(const Program& program);

  // The casts of the program as it is painted now. Throws ArgumentError if an operation does not
  // take the dtypes that reach it.
  CastPlan plan();
  // By value, what they have then: as of the last plan().
  const std::vector<DType>& dtypes() const { return dtypes_; }
  // The dtypes of a node's outputs for inputs of these dtypes; those of absent ones do not count.
  // Throws like plan().
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
  std::vector<std::vector<Inference>> inferences_;  // by node: what was inferred so far

  CastPlan plan_{};
  std::vector<DType> dtypes_{};          // by value, once the casts are there
  std::vector<std::uint8_t> cast_{};     // by value, bit i: has a cast to DType i
  std::vector<std::uint8_t> rounded_{};  // by value, bit i: is rounded to DType i
};

}  // namespace mezzo::graph
