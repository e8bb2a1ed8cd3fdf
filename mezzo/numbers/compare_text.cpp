// Says in words what a comparison has found.
#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/numbers/compare.h"
#include "mezzo/numbers/value_range.h"

namespace mezzo::numbers {
namespace {

const char* pass_of(const ComparedResult& result) {
  return result.id.call.is_backward() ? "backward" : "forward";
}

std::string dtypes_of(const ComparedResult& result) {
  if (result.dtype_a == result.dtype_b) return name_of(result.dtype_a);
  return concat(name_of(result.dtype_a), " and ", name_of(result.dtype_b));
}

std::string reason_of(const ComparedResult& result) {
  switch (result.reason) {
    case Reason::kEqual: return "";
    case Reason::kPrecision: return "It is computed in other dtypes";
    case Reason::kInputs: return "Its inputs differ already";
    case Reason::kSameInputs:
      return "Its inputs are equal bit for bit: another kernel, or another order of sums";
  }
  return "";
}

std::string jump_text(const ComparedResult& result) {
  const OwnError& own = result.own;
  if (own.is_measured && own.is_beyond()) {
    return concat("this call alone adds ", short_text(own.error), ", with an element off by ",
                  short_text(own.largest), " of the largest, and its dtypes explain ",
                  short_text(own.explained));
  }
  return concat("from equal inputs the results are ", short_text(result.error),
                " apart, more than rounding explains in ", dtypes_of(result));
}

}  // namespace

std::string text_of(const ComparedResult& result) {
  const TensorDifference& difference = result.difference;
  std::string text = concat(result.id.call.text(), " (", pass_of(result), ", ", dtypes_of(result));
  if (result.id.output > 0) text += concat(", result ", result.id.output + 1);
  text += concat("): ", difference.differing, " of ", difference.count,
                 difference.count == 1 ? " element differs" : " elements differ");
  if (difference.not_finite > 0) {
    text += concat(", ", difference.not_finite, " finite in one alone");
  }
  if (difference.first_at >= 0) {
    text += concat(", the first at ", index_of(difference.first_at, result.shape));
  }
  if (!is_floating(result.dtype_a)) return text;
  return text + concat(", relative error ", short_text(result.error));
}

bool Comparison::is_equal() const {
  const auto is_same = [](const auto& compared) {
    return compared.difference.is_equal() && compared.dtype_a == compared.dtype_b;
  };
  return std::ranges::all_of(results, is_same) && std::ranges::all_of(sources, is_same) &&
         std::ranges::all_of(gradients, is_same) && not_compared.empty();
}

std::optional<std::size_t> Comparison::largest(bool is_backward) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ComparedResult& result = results[i];
    if (result.id.call.is_backward() != is_backward || result.error == 0) continue;
    if (!found.has_value() || result.error > results[*found].error) found = i;
  }
  return found;
}

std::vector<std::string> Comparison::lines() const {
  std::vector<std::string> lines;
  const auto count_of_equal = static_cast<std::size_t>(std::ranges::count_if(
      results, [](const ComparedResult& result) { return result.reason == Reason::kEqual; }));
  if (is_equal()) {
    lines.push_back(concat("equal bit for bit: all ", results.size(), " results of calls and ",
                           gradients.size(), " gradients of parameters"));
    return lines;
  }
  lines.push_back(
      concat(count_of_equal, " of ", results.size(), " results of calls are equal bit for bit"));
  const auto other = std::ranges::find_if(
      sources, [](const ComparedTensor& source) { return !source.difference.is_equal(); });
  if (other != sources.end()) {
    lines.push_back(concat("before the step, ", other->name, " differs already: relative error ",
                           short_text(other->error)));
  }
  if (first_difference.has_value()) {
    const ComparedResult& first = results[*first_difference];
    lines.push_back(concat("first difference: ", text_of(first), ". ", reason_of(first)));
  }
  if (first_same_inputs.has_value() && first_same_inputs != first_difference) {
    const ComparedResult& first = results[*first_same_inputs];
    lines.push_back(
        concat("first difference from equal inputs: ", text_of(first), ". ", reason_of(first)));
  }
  if (first_jump.has_value()) {
    const ComparedResult& first = results[*first_jump];
    lines.push_back(concat("first beyond its dtypes: ", text_of(first), "; ", jump_text(first)));
  } else {
    lines.push_back(concat("nothing is beyond what the dtypes explain, as far as ", measured,
                           " of ", results.size(),
                           " results tell that were computed again more exactly"));
  }
  const auto add_largest = [&](bool is_backward, const char* name) {
    const std::optional<std::size_t> at = largest(is_backward);
    if (!at.has_value()) return;
    lines.push_back(concat("largest error, ", name, ": ", short_text(results[*at].error), " in ",
                           results[*at].id.call.text()));
  };
  add_largest(false, "forward");
  add_largest(true, "backward");
  if (!not_compared.empty()) {
    const bool is_one = not_compared.size() == 1;
    lines.push_back(concat(not_compared.size(), is_one ? " result is" : " results are",
                           " not compared, such as a cast that one run alone makes: ",
                           not_compared.front().id.call.text(), ", ", not_compared.front().why));
  }
  return lines;
}

}  // namespace mezzo::numbers
