#include "mezzo/cli/diff_table.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "mezzo/cli/table.h"
#include "mezzo/numbers/value_range.h"

namespace mezzo::cli {
namespace {

using numbers::ComparedResult;
using numbers::Comparison;

constexpr std::size_t kDiffWidth = 100;

std::set<std::size_t> chosen(const Comparison& found, std::size_t most) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < found.results.size(); ++i) {
    if (!found.results[i].difference.is_equal()) order.push_back(i);
  }
  const auto by_error = [&](std::size_t a, std::size_t b) {
    return found.results[a].error > found.results[b].error;
  };
  std::ranges::stable_sort(order, by_error);
  order.resize(std::min(order.size(), most));
  std::set<std::size_t> rows(order.begin(), order.end());
  for (const auto& named : {found.first_difference, found.first_same_inputs, found.first_jump}) {
    if (named.has_value()) rows.insert(*named);
  }
  return rows;
}

std::string mark_of(const Comparison& found, std::size_t row) {
  if (found.first_jump == row || found.results[row].is_jump) return "beyond";
  if (found.first_same_inputs == row) return "same inputs";
  return found.first_difference == row ? "first" : "";
}

std::string dtypes_of(const ComparedResult& result) {
  const std::string a = name_of(result.dtype_a);
  return result.dtype_a == result.dtype_b ? a : a + " " + name_of(result.dtype_b);
}

std::string call_text(const ComparedResult& result) {
  const std::string text = result.id.call.text();
  return result.id.output == 0 ? text : fmt::format("{}, result {}", text, result.id.output + 1);
}

// JSON has no infinities and no NaN.
Json number_of(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json event_of(const ComparedResult& result) {
  const numbers::TensorDifference& difference = result.difference;
  Json event{{"event", "call"},
             {"path", result.id.call.path},
             {"op", result.id.call.op},
             {"number", result.id.call.number},
             {"gradient_of", result.id.call.gradient_of},
             {"output", result.id.output},
             {"dtype_a", name_of(result.dtype_a)},
             {"dtype_b", name_of(result.dtype_b)},
             {"elements", difference.count},
             {"differing", difference.differing},
             {"not_finite", difference.not_finite},
             {"error", number_of(result.error)},
             {"input_error", number_of(result.input_error)},
             {"largest", number_of(difference.largest)},
             {"largest_to_rms", number_of(difference.largest_to_rms())},
             {"first_at", difference.first_at},
             {"largest_at", difference.largest_at},
             {"same_inputs", result.reason == numbers::Reason::kSameInputs},
             {"beyond", result.is_jump}};
  if (result.own.is_measured) {
    event["own_error"] = number_of(result.own.error);
    event["explained"] = number_of(result.own.explained);
  }
  return event;
}

Json name_or_null(const Comparison& found, const std::optional<std::size_t>& at) {
  return at.has_value() ? Json(found.results[*at].id.call.text()) : Json();
}

}  // namespace

std::string diff_table(const Comparison& found, std::size_t most) {
  std::vector<std::vector<std::string>> rows{
      {"call", "dtypes", "differ", "error", "of inputs", "own", "explained", "mark"}};
  for (const std::size_t at : chosen(found, most)) {
    const ComparedResult& result = found.results[at];
    const auto own = [&](double value) {
      return result.own.is_measured ? numbers::short_text(value) : std::string("-");
    };
    const double part = static_cast<double>(result.difference.differing) /
                        static_cast<double>(result.difference.count);
    rows.push_back({call_text(result), dtypes_of(result), fmt::format("{:.3g} %", 100 * part),
                    numbers::short_text(result.error), numbers::short_text(result.input_error),
                    own(result.own.error), own(result.own.explained), mark_of(found, at)});
  }
  return rows.size() > 1 ? format_table(rows, kDiffWidth, {0}) : std::string();
}

void log_comparison(const Comparison& found, JsonLines& json) {
  for (const ComparedResult& result : found.results) json.write(event_of(result));
  for (const numbers::ComparedTensor& gradient : found.gradients) {
    json.write({{"event", "gradient"},
                {"name", gradient.name},
                {"elements", gradient.difference.count},
                {"differing", gradient.difference.differing},
                {"error", number_of(gradient.error)}});
  }
  json.write({{"event", "result"},
              {"equal", found.is_equal()},
              {"results", found.results.size()},
              {"not_compared", found.not_compared.size()},
              {"first_difference", name_or_null(found, found.first_difference)},
              {"first_same_inputs", name_or_null(found, found.first_same_inputs)},
              {"first_beyond", name_or_null(found, found.first_jump)},
              {"loss_a", number_of(found.a.loss)},
              {"loss_b", number_of(found.b.loss)}});
}

}  // namespace mezzo::cli
