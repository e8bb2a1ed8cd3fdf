#include "mezzo/report/diff_chart.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/report/svg.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using numbers::ComparedResult;
using numbers::Comparison;

// Errors from 10^-9 to 10; others are drawn at the end.
constexpr double kLeastPower = -9;
constexpr double kMostPower = 1;

// A forward call, with the gradients that were computed of it.
struct Column {
  std::string path{};
  std::vector<std::size_t> forward{};
  std::vector<std::size_t> backward{};
};

// The columns in the order of the forward pass. A gradient whose call was not compared has one of
// its own, at its place in the backward pass.
std::vector<Column> columns_of(const Comparison& found) {
  std::vector<Column> columns;
  std::map<std::pair<std::string, std::string>, std::size_t> by_call;
  for (std::size_t i = 0; i < found.results.size(); ++i) {
    const CallId& call = found.results[i].id.call;
    const bool is_backward = call.is_backward();
    const std::pair key(call.path, is_backward ? call.gradient_of : call.name_in_module());
    const auto [at, is_new] = by_call.try_emplace(key, columns.size());
    if (is_new) columns.push_back({.path = call.path});
    Column& column = columns[at->second];
    (is_backward ? column.backward : column.forward).push_back(i);
  }
  return columns;
}

// From 0 for the least error that is drawn to 1 for the largest.
double height_of(double error) {
  if (!(error > 0)) return 0;
  if (!std::isfinite(error)) return 1;
  return std::clamp((std::log10(error) - kLeastPower) / (kMostPower - kLeastPower), 0.0, 1.0);
}

double explained_of(const ComparedResult& result) {
  if (result.own.is_measured) return result.own.explained;
  return std::max(numbers::rounding_of(result.dtype_a), numbers::rounding_of(result.dtype_b));
}

// What is drawn, in words.
std::string description_of(const Comparison& found) {
  std::string text =
      "In the order of the network, forward on one side of the axis and backward on "
      "the other.";
  for (const std::string& line : found.lines()) text += concat(" ", line, ".");
  return text;
}

// What lies on the axis at a place along it, and a distance from it: the one thing that the two
// drawings do differently.
class Sheet {
 public:
  Sheet(bool is_across, double length, double reach, std::string_view description)
      : is_across_(is_across),
        reach_(reach),
        svg_(is_across ? length : kMargin + 2 * reach + kAxis,
             is_across ? 2 * kMargin + 2 * reach + kAxis : length, "The error of each call",
             description) {}

  // `height` from 0 to 1, backward results on the other side.
  Point at(double along, double height, bool is_backward) const {
    const double from_axis = kAxis / 2 + height * reach_;
    const double middle = kMargin + reach_ + kAxis / 2;
    if (is_across_) return {along, is_backward ? middle + from_axis : middle - from_axis};
    return {is_backward ? middle - from_axis : middle + from_axis, along};
  }
  bool is_across() const { return is_across_; }
  Svg& svg() { return svg_; }

  static constexpr double kMargin = 22;  // for names
  static constexpr double kAxis = 8;

 private:
  bool is_across_;
  double reach_;
  Svg svg_;
};

class DiffDrawing {
 public:
  DiffDrawing(const Comparison& found, const std::vector<Column>& columns, bool is_across)
      : found_(found),
        columns_(columns),
        step_(is_across ? (kChartWidth - kEdge - 10) / static_cast<double>(columns.size()) : kRow),
        length_(is_across ? kChartWidth : kEdge + kRow * static_cast<double>(columns.size()) + 10),
        sheet_(is_across, length_, is_across ? 130 : 150, description_of(found)) {}

  std::string take() {
    draw_grid();
    draw_modules();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      draw_side(columns_[i].forward, begin_of(i), false);
      draw_side(columns_[i].backward, begin_of(i), true);
    }
    draw_named();
    return sheet_.svg().take();
  }

 private:
  static constexpr double kEdge = 48;  // for the names of ticks
  static constexpr double kRow = 9;    // of a column, from top to bottom

  double begin_of(std::size_t column) const { return kEdge + step_ * static_cast<double>(column); }

  void draw_grid() {
    for (const bool is_backward : {false, true}) {
      sheet_.svg().line(sheet_.at(kEdge, 0, is_backward), sheet_.at(length_ - 6, 0, is_backward),
                        "axis");
      for (int power = -8; power <= 0; power += 2) {
        const double height = height_of(std::pow(10.0, power));
        const Point from = sheet_.at(kEdge, height, is_backward);
        sheet_.svg().line(from, sheet_.at(length_ - 6, height, is_backward), "grid");
        const std::string text = power == 0 ? "1" : concat("1e", power);
        if (sheet_.is_across()) {
          sheet_.svg().text({kEdge - 6, from.y + 4}, text, "number", Anchor::kEnd);
        } else if (power % 4 == 0) {
          sheet_.svg().text({from.x, kEdge - 8}, text, "number", Anchor::kMiddle);
        }
      }
    }
    draw_sides();
  }

  void draw_sides() {
    if (sheet_.is_across()) {
      const double bottom = sheet_.at(0, 1, true).y;
      sheet_.svg().text({kEdge, 12}, "forward", "name");
      sheet_.svg().text({kEdge, bottom + 16}, "backward", "name");
    } else {
      sheet_.svg().text({sheet_.at(0, 1, true).x, 14}, "backward", "name");
      sheet_.svg().text({sheet_.at(0, 1, false).x, 14}, "forward", "name", Anchor::kEnd);
    }
  }

  // A faint line where another of the root's modules begins, with its name where there is room.
  void draw_modules() {
    double free = kEdge + 70;
    for (std::size_t i = 1; i < columns_.size(); ++i) {
      const std::string name = columns_[i].path.substr(0, columns_[i].path.find('.'));
      const std::string before = columns_[i - 1].path.substr(0, columns_[i - 1].path.find('.'));
      if (name == before) continue;
      const double along = begin_of(i);
      sheet_.svg().line(sheet_.at(along, 1, false), sheet_.at(along, 1, true), "grid");
      if (!sheet_.is_across() || along < free || name.empty()) continue;
      const std::string shown = shortened(name, 12);
      const double width = 7 * static_cast<double>(shown.size()) + 8;
      if (along + width > length_) continue;
      sheet_.svg().text({along + 3, 12}, shown, "number");
      free = along + width;
    }
  }

  void draw_side(const std::vector<std::size_t>& results, double begin, bool is_backward) {
    const double apart = step_ / static_cast<double>(results.size() + 1);
    for (std::size_t i = 0; i < results.size(); ++i) {
      draw_mark(results[i], begin + apart * static_cast<double>(i + 1), is_backward);
    }
  }

  std::string kind_of(std::size_t at) const {
    const ComparedResult& result = found_.results[at];
    if (result.is_jump) return "beyond";
    if (found_.first_difference == at || found_.first_same_inputs == at) return "first";
    return result.reason == numbers::Reason::kEqual ? "equal" : "";
  }

  void draw_mark(std::size_t at, double along, bool is_backward) {
    const ComparedResult& result = found_.results[at];
    const double height = height_of(result.error);
    const std::string kind = kind_of(at);
    const double half = std::clamp(step_ / 2, 1.0, 4.0);
    if (height > 0) {
      sheet_.svg().line(sheet_.at(along, 0, is_backward), sheet_.at(along, height, is_backward),
                        "stem " + kind);
    }
    if (result.reason != numbers::Reason::kEqual) {
      const double explained = height_of(explained_of(result));
      sheet_.svg().line(sheet_.at(along - half, explained, is_backward),
                        sheet_.at(along + half, explained, is_backward), "explained");
    }
    if (result.own.is_measured && result.own.error > 0) {
      sheet_.svg().circle(sheet_.at(along, height_of(result.own.error), is_backward), 2.2, "own",
                          mark_text(result));
    }
    sheet_.svg().circle(sheet_.at(along, height, is_backward),
                        kind == "beyond" || kind == "first" ? 4 : 2.2, "tip " + kind,
                        mark_text(result));
  }

  // The place of a result along the axis.
  double place_of(std::size_t at) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      for (const auto* side : {&columns_[i].forward, &columns_[i].backward}) {
        const auto found = std::ranges::find(*side, at);
        if (found == side->end()) continue;
        return begin_of(i) + step_ * static_cast<double>(found - side->begin() + 1) /
                                 static_cast<double>(side->size() + 1);
      }
    }
    return kEdge;
  }

  void draw_named() {
    const std::size_t named = found_.first_jump.value_or(
        found_.first_same_inputs.value_or(found_.first_difference.value_or(found_.results.size())));
    if (named == found_.results.size()) return;
    const bool is_backward = found_.results[named].id.call.is_backward();
    const double along = place_of(named);
    sheet_.svg().line(sheet_.at(along, 0, is_backward), sheet_.at(along, 1, is_backward), "mark");
    const std::string text =
        shortened(found_.results[named].id.call.path.empty() ? found_.results[named].id.call.op
                                                             : found_.results[named].id.call.path,
                  20);
    const Point end = sheet_.at(along, 1, is_backward);
    if (sheet_.is_across()) {
      const Anchor anchor = along > length_ / 2 ? Anchor::kEnd : Anchor::kStart;
      const double side = along > length_ / 2 ? -5 : 5;
      sheet_.svg().text({end.x + side, is_backward ? end.y - 4 : end.y + 12}, text, "name", anchor);
    } else {
      sheet_.svg().text({end.x, end.y - 3}, text, "name",
                        is_backward ? Anchor::kStart : Anchor::kEnd);
    }
  }

  const Comparison& found_;
  const std::vector<Column>& columns_;
  double step_;
  double length_;
  Sheet sheet_;
};

}  // namespace

std::string mark_text(const ComparedResult& result) {
  std::string text = concat(result.id.call.text());
  if (result.id.output > 0) text += concat(", result ", result.id.output + 1);
  if (result.reason == numbers::Reason::kEqual) return text + ": equal bit for bit";
  text += concat(": relative error ", format_number(result.error, 3), ", of its inputs ",
                 format_number(result.input_error, 3));
  if (result.own.is_measured) {
    text += concat("; its own ", format_number(result.own.error, 3), ", explained ",
                   format_number(result.own.explained, 3));
  }
  return text;
}

std::string diff_chart(const Comparison& found) {
  const std::vector<Column> columns = columns_of(found);
  if (columns.empty()) return {};
  return concat("<div class=\"across\">\n", DiffDrawing(found, columns, true).take(),
                "</div>\n<div class=\"down\">\n", DiffDrawing(found, columns, false).take(),
                "</div>\n");
}

}  // namespace mezzo::report
