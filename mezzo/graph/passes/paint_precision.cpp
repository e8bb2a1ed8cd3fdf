#include "mezzo/graph/passes/paint_precision.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/graph/passes/colours.h"

namespace mezzo::graph {
namespace {

using Nodes = std::vector<std::size_t>;
using Side = std::vector<std::size_t> Neighbours::*;

// The paint of a node before its neighbours are considered.
std::optional<DType> paint_of(const Mark& mark) {
  if (mark.colour == Colour::kWhite) return mark.lower;
  return mark.colour == Colour::kBlack ? std::optional(DType::kF32) : std::nullopt;
}

class Painter {
 public:
  explicit Painter(Program& program) : program_(program), planner_(program) {
    for (const Node& node : program.nodes) marks_.push_back(mark_of(program, node));
    around_ = neighbours_of(program, planner_, marks_);
  }

  std::size_t run() {
    paint_decided();
    spread_black();
    cost_ = cost();
    find_free();
    paint_between_white();
    paint_clear_after_white();
    paint_clear_before_white();
    paint_before_ends();
    std::size_t lower = 0;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      program_.nodes[i].reason = marks_[i].reason;
      const std::optional<DType> paint = program_.nodes[i].paint;
      lower += static_cast<std::size_t>(paint.has_value() && is_lower(*paint));
    }
    return lower;
  }

 private:
  bool is(std::size_t node, Colour colour) const { return marks_[node].colour == colour; }
  const char* name(std::size_t node) const { return program_.nodes[node].op->name; }

  Nodes all(Colour colour) const {
    Nodes result;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (is(i, colour)) result.push_back(i);
    }
    return result;
  }

  // For each node, the one of `starts` from which it is reached over nodes that are let through;
  // kNoNode for none. A start is only reached from other starts.
  template <class LetsThrough>
  Nodes reach(const Nodes& starts, Side side, LetsThrough lets_through) const {
    Nodes origin(marks_.size(), kNoNode);
    Nodes queue = starts;
    std::vector<bool> is_start(marks_.size());
    for (const std::size_t start : starts) is_start[start] = true;
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::size_t from = is_start[queue[head]] ? queue[head] : origin[queue[head]];
      for (const std::size_t next : around_[queue[head]].*side) {
        if (origin[next] != kNoNode || !lets_through(next)) continue;
        origin[next] = from;
        if (!is_start[next]) queue.push_back(next);
      }
    }
    return origin;
  }

  void paint_decided() {
    for (std::size_t i = 0; i < marks_.size(); ++i) program_.nodes[i].paint = paint_of(marks_[i]);
  }

  // Step 1. It costs no casts: the other inputs of such a node are widened to f32 in any case.
  void spread_black() {
    Nodes ends = all(Colour::kBlack);
    const Nodes gray = all(Colour::kGray);
    const Nodes black = ends;
    ends.insert(ends.end(), gray.begin(), gray.end());
    const Nodes before =
        reach(ends, &Neighbours::makers, [&](std::size_t i) { return is(i, Colour::kClear); });
    const Nodes after = reach(black, &Neighbours::readers, [&](std::size_t i) {
      return is(i, Colour::kGray) || (is(i, Colour::kClear) && before[i] != kNoNode);
    });
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (after[i] == kNoNode || !marks_[i].is_undecided()) continue;
      marks_[i].colour = Colour::kBlack;
      marks_[i].reason = concat("follows ", name(after[i]), " in f32");
      program_.nodes[i].paint = DType::kF32;
    }
  }

  // Finds the nodes that may still become white: undecided nodes from which no path of undecided
  // nodes leads to a reader that must get what autocast would give.
  void find_free() {
    Nodes last;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i].is_undecided() && around_[i].read_without_edge) last.push_back(i);
    }
    const Nodes bound =
        reach(last, &Neighbours::makers, [&](std::size_t i) { return marks_[i].is_undecided(); });
    free_.resize(marks_.size());
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      free_[i] = marks_[i].is_undecided() && bound[i] == kNoNode && !around_[i].read_without_edge;
    }
  }

  bool is_free(std::size_t node) const { return free_[node] && marks_[node].is_undecided(); }

  // Step 2.
  void paint_between_white() {
    const auto through = [&](std::size_t i) { return is_free(i); };
    const Nodes white = all(Colour::kWhite);
    const Nodes after = reach(white, &Neighbours::readers, through);
    const Nodes before = reach(white, &Neighbours::makers, through);
    paint_groups(after, before, [&](std::size_t i) {
      return concat("between ", name(after[i]), " and ", name(before[i]));
    });
  }

  // Step 3, forward.
  void paint_clear_after_white() {
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (!is_free(i) || !is(i, Colour::kClear)) continue;
      const auto white = std::ranges::find_if(
          around_[i].makers, [&](std::size_t maker) { return is(maker, Colour::kWhite); });
      if (white != around_[i].makers.end()) try_white({i}, concat("next to ", name(*white)));
    }
  }

  // Step 3, backward. Rounding before or after a clear node gives the same, unless somebody reads
  // its unrounded result.
  void paint_clear_before_white() {
    for (std::size_t i = marks_.size(); i-- > 0;) {
      const Nodes& readers = around_[i].readers;
      const bool only_white =
          !readers.empty() && !around_[i].returned &&
          std::ranges::all_of(readers, [&](std::size_t k) { return is(k, Colour::kWhite); });
      if (!is_free(i) || !is(i, Colour::kClear) || !only_white) continue;
      try_white({i}, concat("next to ", name(readers.front())));
    }
  }

  // Step 4.
  void paint_before_ends() {
    const auto through = [&](std::size_t i) { return is_free(i); };
    Nodes ends;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (is_free(i) && (around_[i].returned || around_[i].unread)) ends.push_back(i);
    }
    const Nodes after = reach(all(Colour::kWhite), &Neighbours::readers, through);
    Nodes before = reach(ends, &Neighbours::makers, through);
    for (const std::size_t end : ends) before[end] = end;
    paint_groups(after, before,
                 [&](std::size_t i) { return concat("between ", name(after[i]), " and an end"); });
  }

  // Tries the nodes that are reached from both sides, each connected group together.
  template <class Reason>
  void paint_groups(const Nodes& after, const Nodes& before, Reason reason) {
    std::vector<bool> waits(marks_.size());
    for (std::size_t i = 0; i < waits.size(); ++i) {
      waits[i] = is_free(i) && after[i] != kNoNode && before[i] != kNoNode;
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (!waits[i]) continue;
      const Nodes group = take_group(i, waits);
      if (!try_white(group, {})) continue;
      for (const std::size_t node : group) marks_[node].reason = reason(node);
    }
  }

  Nodes take_group(std::size_t first, std::vector<bool>& waits) const {
    Nodes group{first};
    waits[first] = false;
    for (std::size_t head = 0; head < group.size(); ++head) {
      for (const Side side : {&Neighbours::readers, &Neighbours::makers}) {
        for (const std::size_t next : around_[group[head]].*side) {
          if (waits[next]) group.push_back(next);
          waits[next] = false;
        }
      }
    }
    return group;
  }

  // Makes the nodes white unless that costs more casts.
  bool try_white(const Nodes& group, const std::string& reason) {
    for (const std::size_t i : group) program_.nodes[i].paint = marks_[i].lower;
    const CastCost with = cost();
    if (cost_ < with) {
      for (const std::size_t i : group) program_.nodes[i].paint.reset();
      return false;
    }
    cost_ = with;
    for (const std::size_t i : group) {
      marks_[i].colour = Colour::kWhite;
      marks_[i].reason = reason;
    }
    return true;
  }

  // The cost is the highest possible if an operation does not accept its inputs; in the end, the
  // pass that inserts casts reports that.
  CastCost cost() {
    try {
      return planner_.plan().cost;
    } catch (const ArgumentError&) {
      return {std::numeric_limits<std::size_t>::max(), 0};
    }
  }

  Program& program_;
  CastPlanner planner_;
  std::vector<Mark> marks_;
  std::vector<Neighbours> around_;
  std::vector<bool> free_;
  CastCost cost_{};
};

}  // namespace

std::size_t paint_precision(Program& program) { return Painter(program).run(); }

std::vector<DType> dtypes_of_autocast(Program program) {
  for (Node& node : program.nodes) node.paint = paint_of(mark_of(program, node));
  CastPlanner planner(program);
  planner.plan();
  return planner.dtypes();
}

}  // namespace mezzo::graph
