#include "mezzo/ops/einsum.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

// A tensor whose axes have labels.
struct Labelled {
  Tensor tensor;
  std::string labels;
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool has(const std::string& labels, char label) { return labels.find(label) != labels.npos; }

// The labels that occur once, in order.
std::string implicit_result(const std::vector<std::string>& operands) {
  std::string all;
  for (const std::string& labels : operands) all += labels;
  std::string once;
  std::ranges::copy_if(all, std::back_inserter(once),
                       [&](char label) { return std::ranges::count(all, label) == 1; });
  std::ranges::sort(once);
  return once;
}

// Without spaces. Throws unless the rest is letters, commas and at most one arrow.
std::string checked_text(std::string_view equation) {
  std::string text;
  std::ranges::copy_if(equation, std::back_inserter(text), [](char c) { return c != ' '; });
  check_arg(text.find('.') == text.npos, "einsum", "the equation `", equation,
            "` has an ellipsis, which is not supported. Name each axis by a letter");
  const std::size_t arrow = text.find("->");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_arrow = arrow != text.npos && (i == arrow || i == arrow + 1);
    const bool is_comma = text[i] == ',' && i < arrow;
    check_arg(is_label(text[i]) || is_comma || is_arrow, "einsum", "the equation `", equation,
              "` has an unexpected `", std::string(1, text[i]),
              "`. Use letters, commas and one arrow, as in `ij,jk->ik`");
  }
  return text;
}

Equation parse(std::string_view equation) {
  const std::string text = checked_text(equation);
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation parsed;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = left.find(',', begin);
    parsed.operands.push_back(left.substr(begin, comma - begin));
    if (comma == left.npos) break;
    begin = comma + 1;
  }
  parsed.result = arrow == text.npos ? implicit_result(parsed.operands) : text.substr(arrow + 2);
  for (const char label : parsed.result) {
    check_arg(std::ranges::count(parsed.result, label) == 1, "einsum", "the result of `", equation,
              "` has `", std::string(1, label), "` twice. Give each label once");
    check_arg(has(left, label), "einsum", "`", std::string(1, label), "` in the result of `",
              equation, "` is no label of an operand. Use one of theirs");
  }
  return parsed;
}

void check_sizes(const Equation& equation, std::span<const Tensor> operands) {
  check_arg(equation.operands.size() == operands.size(), "einsum", "the equation has ",
            equation.operands.size(), " operands, there are ", operands.size(),
            ". Give one tensor for each");
  std::array<std::int64_t, 128> sizes{};
  sizes.fill(-1);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& labels = equation.operands[i];
    const Shape& shape = operands[i].shape();
    check_arg(labels.size() == shape.rank(), "einsum", "operand ", i, " has shape ", shape,
              ", its labels are `", labels, "`. Give one letter for each axis");
    for (std::size_t axis = 0; axis < labels.size(); ++axis) {
      std::int64_t& size = sizes[static_cast<std::size_t>(labels[axis])];
      check_arg(size == -1 || size == shape[axis], "einsum", "`", std::string(1, labels[axis]),
                "` is ", size, " and, in operand ", i, " of shape ", shape, ", ", shape[axis],
                ". Give axes with one label one size");
      size = shape[axis];
    }
  }
}

// x with its axes in the order of `labels`, which are those of x.
Tensor in_order(const Labelled& x, const std::string& labels) {
  if (x.labels == labels) return x.tensor;
  Shape axes;
  for (const char label : labels) {
    axes.push_back(static_cast<std::int64_t>(x.labels.find(label)));
  }
  return permute(x.tensor, axes);
}

// The diagonal of axes that have the same label, until all labels differ.
Labelled without_repeats(Labelled x) {
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const std::size_t again = x.labels.find(x.labels[i], i + 1);
    if (again == x.labels.npos) continue;
    // The two axes last, as one, of which every (n + 1)st element is on the diagonal.
    Shape axes;
    std::string labels;
    for (std::size_t k = 0; k < x.labels.size(); ++k) {
      if (k == i || k == again) continue;
      axes.push_back(static_cast<std::int64_t>(k));
      labels += x.labels[k];
    }
    axes.push_back(static_cast<std::int64_t>(i));
    axes.push_back(static_cast<std::int64_t>(again));
    const std::int64_t n = x.tensor.shape()[i];
    const Tensor square = flatten(permute(x.tensor, axes), -2, -1);
    return without_repeats({slice(square, -1, 0, n * n, n + 1), labels + x.labels[i]});
  }
  return x;
}

// x summed over the axes whose labels are not in `kept`.
Labelled summed(const Labelled& x, const std::string& kept) {
  Shape axes;
  std::string labels;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (has(kept, x.labels[i])) {
      labels += x.labels[i];
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  return axes.empty() ? x : Labelled{sum(x.tensor, axes), labels};
}

std::int64_t size_of_axes(const Labelled& x, const std::string& labels) {
  std::int64_t size = 1;
  for (const char label : labels) size *= x.tensor.shape()[x.labels.find(label)];
  return size;
}

// The labels of a pair of operands, by what becomes of them.
struct Roles {
  std::string batch;   // in both, and kept
  std::string summed;  // in both, and summed
  std::string of_a;    // in one of them
  std::string of_b;
};

Roles roles_of(const Labelled& a, const Labelled& b, const std::string& kept) {
  Roles roles;
  for (const char label : a.labels) {
    (!has(b.labels, label) ? roles.of_a : has(kept, label) ? roles.batch : roles.summed) += label;
  }
  for (const char label : b.labels) {
    if (!has(a.labels, label)) roles.of_b += label;
  }
  return roles;
}

// The product of two operands, summed over the labels that are not in `kept`.
Labelled product(const Labelled& left, const Labelled& right, const std::string& kept) {
  // Labels of one operand alone that nobody else needs are summed first.
  const Labelled a = summed(left, kept + right.labels);
  const Labelled b = summed(right, kept + left.labels);
  const Roles roles = roles_of(a, b, kept);
  const std::int64_t batch = size_of_axes(a, roles.batch);
  const std::int64_t inner = size_of_axes(a, roles.summed);
  const std::int64_t rows = size_of_axes(a, roles.of_a);
  const std::int64_t columns = size_of_axes(b, roles.of_b);
  const Tensor first =
      reshape(in_order(a, roles.batch + roles.of_a + roles.summed), {batch, rows, inner});
  const Tensor second =
      reshape(in_order(b, roles.batch + roles.summed + roles.of_b), {batch, inner, columns});
  const Tensor y = roles.summed.empty() ? first * second : matmul(first, second);
  Shape shape;
  for (const char label : roles.batch) shape.push_back(size_of_axes(a, {label}));
  for (const char label : roles.of_a) shape.push_back(size_of_axes(a, {label}));
  for (const char label : roles.of_b) shape.push_back(size_of_axes(b, {label}));
  return {reshape(y, shape), roles.batch + roles.of_a + roles.of_b};
}

}  // namespace

Tensor einsum(std::string_view text, std::span<const Tensor> operands) {
  const Equation equation = parse(text);
  check_sizes(equation, operands);
  Labelled result = without_repeats({operands[0], equation.operands[0]});
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string kept = equation.result;
    for (std::size_t k = i + 1; k < operands.size(); ++k) kept += equation.operands[k];
    result = product(result, without_repeats({operands[i], equation.operands[i]}), kept);
  }
  return in_order(summed(result, equation.result), equation.result);
}

}  // namespace mezzo
