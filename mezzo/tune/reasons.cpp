#include "mezzo/tune/reasons.h"

#include <cmath>
#include <cstdio>
#include <string_view>

#include "mezzo/core/error.h"

namespace mezzo::tune {
namespace {

// A number in three digits: `0.0123`, `12.3`.
std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

std::string what_breaks(const MeasuredChoice& choice) {
  const GradientError& error = choice.error;
  const std::string where = error.worst.name.empty() ? "" : concat(", as of ", error.worst.name);
  if (error.not_finite > 0 || !std::isfinite(error.total)) {
    return concat("in ", choice.choice.text(), " gradients would not be finite", where);
  }
  if (error.worst.lost > 0.5) {
    return concat("in ", choice.choice.text(), " ", short_number(100 * error.worst.lost),
                  " % of the gradient of ", error.worst.name, " would be lost");
  }
  return concat("in ", choice.choice.text(), " the error would be ", error_text(error.total),
                where);
}

// The fastest 16-bit choice, or null.
const MeasuredChoice* best_lower(const MeasuredOperation& operation) {
  const MeasuredChoice* best = nullptr;
  for (const MeasuredChoice& choice : operation.choices) {
    if (choice.choice.dtype == DType::kF32) continue;
    if (best == nullptr || choice.ms < best->ms) best = &choice;
  }
  return best;
}

std::string why_f32(const MeasuredOperation& operation, double error_budget, Objective objective) {
  const MeasuredChoice* lower = best_lower(operation);
  if (lower == nullptr) return "it is not safe in 16 bits";
  if (!lower->error.is_finite() || lower->error.total > error_budget) return what_breaks(*lower);
  const MeasuredChoice& own = operation.choice();
  if (objective == Objective::kMemory) {
    return concat("in ", lower->choice.text(), " it would add ", error_text(lower->error.total),
                  " to the error, and the step as a whole would take more memory");
  }
  if (lower->ms >= own.ms) {
    return concat("no lower dtype is faster here: ", short_number(own.ms), " ms, in ",
                  lower->choice.text(), " ", short_number(lower->ms));
  }
  const double saved = own.ms - lower->ms;
  if (saved < lower->cast_ms) {
    return concat("16 bits would save ", short_number(saved), " ms and casts take ",
                  short_number(lower->cast_ms));
  }
  return concat(
      "16 bits would save ", short_number(saved), " ms and add ", error_text(lower->error.total),
      " to the error; the step as a whole is faster, or the error is better spent elsewhere");
}

std::string why_lower(const MeasuredOperation& operation) {
  const MeasuredChoice& own = operation.choice();
  const MeasuredChoice& f32 = operation.choices.front();
  const double saved = f32.ms - own.ms;
  std::string text;
  if (saved > 0) {
    text = concat("saves ", short_number(saved), " of ", short_number(f32.ms), " ms");
  } else {
    text = concat("takes ", short_number(own.ms), " ms, in f32 ", short_number(f32.ms),
                  ": its neighbours are in 16 bits");
  }
  return text + concat("; alone it has an error of ", error_text(own.error.total));
}

}  // namespace

std::string reason_of(const MeasuredOperation& operation, double error_budget,
                      Objective objective) {
  if (operation.choice().choice.dtype != DType::kF32) return why_lower(operation);
  std::string text = why_f32(operation, error_budget, objective);
  if (operation.choice().choice.exact) {
    text += concat("; by Winograd's method its error would be ",
                   error_text(operation.choices.front().error.total));
  }
  return text;
}

}  // namespace mezzo::tune
