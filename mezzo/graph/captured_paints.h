// CapturedPaints: the precision decisions for the calls of a step, in order.
#pragma once

#include <optional>
#include <vector>

#include "mezzo/graph/capture.h"

namespace mezzo::graph {

class CapturedPaints {
 public:
  // `paints` must outlive this object; null if nothing was decided.
  CapturedPaints(const char* op, const std::vector<Paint>* paints) : op_(op), paints_(paints) {}

  bool are_given() const { return paints_ != nullptr; }

  // The paint of the call that is about to be made. If the call fails and the step continues
  // without it, the paint remains for the next call that succeeds, which may be of another
  // operation.
  std::optional<DType> of(const OpDef& op) const {
    return is_next(op) ? (*paints_)[taken_].dtype : std::nullopt;
  }

  // Notes that the call was made. Throws ArgumentError if another one was expected.
  void take(const OpDef& op) {
    check_arg(is_next(op), op_, kOtherCalls, "call ", taken_, " is ", op.name,
              " when it is made in mixed precision", kAdvice);
    ++taken_;
  }

  // Throws ArgumentError if calls were left out.
  void check_all_taken() const {
    check_arg(paints_ == nullptr || taken_ == paints_->size(), op_, kOtherCalls, taken_,
              " when they are made in mixed precision, and ",
              paints_ != nullptr ? paints_->size() : 0, " else", kAdvice);
  }

 private:
  static constexpr const char* kOtherCalls =
      "the step makes different calls when values have different dtypes: ";
  static constexpr const char* kAdvice =
      ". Decide only by the inputs of the step, keep no results between calls, or leave out the "
      "pass paint_precision";

  bool is_next(const OpDef& op) const {
    return taken_ < paints_->size() && (*paints_)[taken_].op == &op;
  }

  const char* op_;
  const std::vector<Paint>* paints_;
  std::size_t taken_ = 0;
};

}  // namespace mezzo::graph
