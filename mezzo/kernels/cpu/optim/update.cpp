// Updates of parameters by the rules of ops/update/rules: how a step goes over memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/optim/update.cpp"
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/loops/ranges.h"
#include "mezzo/kernels/cpu/optim/flat.h"
#include "mezzo/kernels/cpu/optim/half_params-inl.h"
#include "mezzo/kernels/cpu/optim/narrow_state-inl.h"
#include "mezzo/kernels/cpu/optim/number-inl.h"
#include "mezzo/kernels/cpu/simd/prefetch.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/update/flat_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using flat::UpdateBlock;
using flat::UpdateFactors;

namespace rules {

using flat::kLeastState;
using mezzo::rules::RuleList;
#define MEZZO_RULE_FUNCTION HWY_INLINE
#include "mezzo/ops/update/rules/list-inl.h"
#undef MEZZO_RULE_FUNCTION

}  // namespace rules

// A struct of a rule's numbers.
template <class Numbers, std::size_t kMost>
HWY_INLINE Numbers numbers_of(const flat::RuleNumbers<kMost>& stored) {
  Numbers numbers{};
  if constexpr (!std::is_empty_v<Numbers>) std::memcpy(&numbers, stored.data(), sizeof(numbers));
  return numbers;
}

// The loss scale leaves here, in f32: taken out in 16 bits, small gradients would underflow.
// Clipping comes after it, with a rounding of its own, as it would if it were done before the
// step.
HWY_INLINE Number true_gradient(const UpdateFactors& f, F32Vec grad) {
  return Number(grad) * Number(f.inv_scale) * Number(f.clip);
}

// How far ahead numbers are asked for, 2 KB. There are up to six streams, and hardware that follows
// them stops at the end of every page: SGD's step of ResNet-50 takes 9.9 ms instead of 10.6.
inline constexpr std::int64_t kAhead = 512;

// One of the library's rules, for the numbers of a step.
template <class Rule>
class Compiled {
 public:
  explicit Compiled(const UpdateFactors& factors)
      : factors_(factors), own_factors_(numbers_of<typename Rule::Factors>(factors.rule)) {}

  // Updates [begin, end) of a block, where `ask(p)` asks for what is read some time after p.
  template <class Ask>
  HWY_INLINE void run(const UpdateBlock& block, std::int64_t begin, std::int64_t end,
                      const Ask& ask) const {
    const auto own = numbers_of<typename Rule::Own>(block.own);
    const std::int64_t step = lanes();
    std::int64_t i = begin;
    for (; i + step <= end; i += step) {
      run_vector(
          block, own, i,
          [&](const float* p) HWY_ATTR {
            ask(p);
            return load(p);
          },
          [](F32Vec v, float* p) HWY_ATTR { store(v, p); });
    }
    if (i == end) return;
    const std::int64_t count = end - i;
    run_vector(
        block, own, i, [=](const float* p) HWY_ATTR { return load_part(p, count); },
        [=](F32Vec v, float* p) HWY_ATTR { store_part(v, p, count); });
  }

 private:
  // Reads and writes through `get` and `put`, so that whole and partial vectors share the rule.
  HWY_INLINE void run_vector(const UpdateBlock& block, const typename Rule::Own& own,
                             std::int64_t i, auto get, auto put) const {
    Number param(get(block.param + i));
    const Number grad = true_gradient(factors_, get(block.grad + i));
    Number slots[Rule::kSlots + 1];  // one more, for there are no arrays of nothing
    for (std::size_t k = 0; k < Rule::kSlots; ++k) slots[k] = Number(get(block.slots[k] + i));
    Rule::apply(param, grad, slots, own, own_factors_);
    for (std::size_t k = 0; k < Rule::kSlots; ++k) put(slots[k].v, block.slots[k] + i);
    put(param.v, block.param + i);
  }

  const UpdateFactors& factors_;
  typename Rule::Factors own_factors_;
};

// A rule that is a program's own function.
class Foreign {
 public:
  Foreign(const UpdateRule& rule, const UpdateFactors& factors) : rule_(rule), factors_(factors) {}

  template <class Ask>
  void run(const UpdateBlock& block, std::int64_t begin, std::int64_t end,
           const Ask& /*ask*/) const {
    alignas(64) float grad[kPiece];
    for (std::int64_t at = begin; at < end; at += kPiece) {
      const std::int64_t count = std::min(kPiece, end - at);
      for_piece(count, [&](std::int64_t i, auto get, auto put) HWY_ATTR {
        put(true_gradient(factors_, get(block.grad + at)).v, grad);
        static_cast<void>(i);
      });
      rule_.function(piece_of(block, at, static_cast<std::size_t>(count), grad));
    }
  }

 private:
  RulePiece piece_of(const UpdateBlock& block, std::int64_t at, std::size_t count,
                     const float* grad) const {
    RulePiece piece{.param = {block.param + at, count},
                    .grad = {grad, count},
                    .own = block.own.data(),
                    .factors = factors_.rule.data()};
    for (std::size_t k = 0; k < rule_.slots; ++k) piece.slots[k] = block.slots[k] + at;
    return piece;
  }

  const UpdateRule& rule_;
  const UpdateFactors& factors_;
};

template <class Rule>
void run_range(const UpdateBlock& block, std::int64_t begin, std::int64_t end, const Rule& rule) {
  rule.run(block, begin, end, [](const float* p) { __builtin_prefetch(p + kAhead); });
}

// Moves the pointers to a block's state on.
void advance(UpdateBlock& block, std::int64_t by) {
  for (float*& slot : block.slots) {
    if (slot != nullptr) slot += by;
  }
}

// The same for a 16-bit parameter, in pieces.
template <class Rule>
void run_half_range(const UpdateBlock& block, std::int64_t begin, std::int64_t end,
                    const Rule& rule) {
  PieceScratch scratch;
  for (std::int64_t at = begin; at < end; at += kPiece) {
    const std::int64_t count = std::min(kPiece, end - at);
    UpdateBlock piece = block;
    advance(piece, at);
    read_piece(piece, block, at, count, scratch);
    run_range(piece, 0, count, rule);
    write_piece(block.half, at, count, piece.param, scratch);
  }
}

// The same for an f32 parameter that has a 16-bit copy: a piece is rounded while it is in the
// first-level cache. A cast before the next step would read it from memory once more.
template <class Rule>
void run_copied_range(const UpdateBlock& block, std::int64_t begin, std::int64_t end,
                      const Rule& rule) {
  for (std::int64_t at = begin; at < end; at += kPiece) {
    const std::int64_t count = std::min(kPiece, end - at);
    run_range(block, at, at + count, rule);
    visit_half(block.copy.dtype, [&]<class T>(T) HWY_ATTR {
      round_nearest(block.param + at, static_cast<T*>(block.copy.data) + at, count);
    });
  }
}

// How far the patch that comes `patches` later lies ahead of the one at `column`: in the same rows,
// or in the rows below.
std::int64_t patches_ahead(const PatchGrid& grid, std::int64_t column, std::int64_t patches) {
  const std::int64_t next = column + patches * grid.columns;
  const std::int64_t below = next / grid.row_elements;
  const std::int64_t next_column = next - below * grid.row_elements;
  return below * grid.rows * grid.row_elements + next_column - column;
}

// Updates the patch at `first`, asks for what lies `ahead`, and rounds it if it is packed from
// that.
template <class Rule>
void run_patch(const UpdateBlock& block, std::int64_t first, std::int64_t ahead,
               const PatchGrid& grid, const Rule& rule, BFloat16* rounded) {
  const std::int64_t bytes = ahead * static_cast<std::int64_t>(sizeof(float));
  for (std::int64_t row = 0; row < grid.rows; ++row, first += grid.row_elements) {
    rule.run(block, first, first + grid.columns,
             [=](const float* p) { kernels::prefetch(p, bytes); });
    if (grid.is_rounded) {
      round_nearest(block.param + first, rounded + row * grid.columns, grid.columns);
    }
  }
}

// The same for an f32 parameter that has copies in kernels' layouts. Each patch is packed while it
// is in the first-level cache: whole rows would come from the second level again, whose lines wait
// for those that are on their way to and from memory. `begin` and `end` may lie within groups of
// rows: those that begin between them are done.
template <class Rule>
void run_packed_range(const UpdateBlock& block, std::int64_t begin, std::int64_t end,
                      const Rule& rule) {
  constexpr std::int64_t kPatchesAhead = 2;
  const PatchGrid grid = block.copy.packed.first->get()->grid();
  const std::int64_t group = grid.rows * grid.row_elements;
  const auto next = [&](std::int64_t i) { return std::min(round_up(i, group), block.count); };
  begin = next(begin);
  end = next(end);
  alignas(64) BFloat16 rounded[kMostRounded];
  for (std::int64_t at = begin; at < end; at += group) {
    for (std::int64_t column = 0; column < grid.row_elements; column += grid.columns) {
      const std::int64_t ahead = patches_ahead(grid, column, kPatchesAhead);
      run_patch(block, at + column, ahead, grid, rule, rounded);
      const Patch patch{at / grid.row_elements, column, block.param, rounded};
      for (const Ref<PackedCopy>& copy : block.copy.packed) copy->write(patch);
    }
  }
  hwy::FlushStream();
}

template <class Rule>
void run_any_range(const UpdateBlock& block, std::int64_t begin, std::int64_t end,
                   const Rule& rule) {
  if (block.half.param != nullptr) {
    run_half_range(block, begin, end, rule);
  } else if (block.copy.packed.count > 0) {
    run_packed_range(block, begin, end, rule);
  } else if (block.copy.data != nullptr) {
    run_copied_range(block, begin, end, rule);
  } else {
    run_range(block, begin, end, rule);
  }
}

// The rule of a parameter that has been updated already.
struct Unchanged {
  template <class Ask>
  HWY_INLINE void run(const UpdateBlock& /*block*/, std::int64_t /*begin*/, std::int64_t /*end*/,
                      const Ask& /*ask*/) const {}
};

// The same for a parameter with narrow state, in pieces. `begin` is a multiple of kStateBlock.
template <class Rule>
void run_narrow_range(const UpdateBlock& block, std::int64_t begin, std::int64_t end,
                      const Rule& rule) {
  PieceScratch scratch;
  StateScratch state;
  for (std::int64_t at = begin; at < end; at += kPiece) {
    const std::int64_t count = std::min(kPiece, end - at);
    UpdateBlock piece = block;
    if (block.half.param != nullptr) {
      read_piece(piece, block, at, count, scratch);
    } else {
      piece.param = block.param + at;
      piece.grad = block.grad + at;
    }
    read_state(piece, block.state, at, count, state);
    rule.run(piece, 0, count, [](const float*) {});
    write_state(block, at, count, state);
    if (block.half.param != nullptr) {
      write_piece(block.half, at, count, piece.param, scratch);
    } else if (block.copy.data != nullptr && block.copy.packed.count == 0) {
      visit_half(block.copy.dtype, [&]<class T>(T) HWY_ATTR {
        round_nearest(piece.param, static_cast<T*>(block.copy.data) + at, count);
      });
    }
  }
}

// A parameter with narrow state, whose elements are counted in blocks.
struct StateBlocks {
  const UpdateBlock* block;
  std::int64_t count;
};

// Updates parameters with narrow state. Threads get whole blocks of it: a block that two of them
// shared would have two scales. Copies in kernels' layouts follow, whose patches fit no blocks.
template <class Rule>
void for_narrow(std::span<const UpdateBlock> blocks, const Rule& rule) {
  std::vector<StateBlocks> counted;
  std::vector<UpdateBlock> packed;
  for (const UpdateBlock& block : blocks) {
    counted.push_back({&block, scales_of(block.count)});
    if (block.copy.packed.count > 0) packed.push_back(block);
  }
  kernels::for_ranges(std::span<const StateBlocks>(counted), kElementGrain / kStateBlock,
                      [&](std::size_t index, std::int64_t begin, std::int64_t end) HWY_ATTR {
                        const UpdateBlock& block = *counted[index].block;
                        run_narrow_range(block, begin * kStateBlock,
                                         std::min(end * kStateBlock, block.count), rule);
                      });
  kernels::for_ranges(std::span<const UpdateBlock>(packed), kElementGrain,
                      [&](std::size_t index, std::int64_t begin, std::int64_t end)
                          HWY_ATTR { run_packed_range(packed[index], begin, end, Unchanged()); });
}

// The same for an f32 parameter whose gradient is computed a few rows at a time: these are used
// while they are in the second-level cache.
template <class Rule>
void run_rows(const UpdateBlock& block, const Rule& rule) {
  const std::int64_t grain = kElementGrain / block.rows->group_elements() + 1;
  parallel_for(block.rows->groups(), grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    UpdateBlock part = block;
    block.rows->compute(begin, end,
                        [&](std::int64_t first, std::int64_t last, const float* values) HWY_ATTR {
                          part.grad = values - first;
                          run_any_range(part, first, last, rule);
                        });
  });
}

template <class Rule>
void for_elements(std::span<const UpdateBlock> blocks, const Rule& rule) {
  const auto is_special = [](const UpdateBlock& block) {
    return block.rows != nullptr || block.state;
  };
  std::vector<UpdateBlock> others;
  std::vector<UpdateBlock> narrow;
  if (std::ranges::any_of(blocks, is_special)) {
    for (const UpdateBlock& block : blocks) {
      if (block.state) {
        narrow.push_back(block);
      } else if (block.rows != nullptr) {
        run_rows(block, rule);
      } else {
        others.push_back(block);
      }
    }
    for_narrow(std::span<const UpdateBlock>(narrow), rule);
    blocks = others;
  }
  kernels::for_ranges(blocks, kElementGrain,
                      [&](std::size_t index, std::int64_t begin, std::int64_t end)
                          HWY_ATTR { run_any_range(blocks[index], begin, end, rule); });
}

using Run = void (*)(std::span<const UpdateBlock>, const UpdateFactors&);

template <class Rule>
void run_compiled(std::span<const UpdateBlock> blocks, const UpdateFactors& factors) {
  for_elements(blocks, Compiled<Rule>(factors));
}

template <class... Rule>
constexpr std::array<Run, sizeof...(Rule)> runs_of(mezzo::rules::RuleList<Rule...> /*rules*/) {
  return {run_compiled<Rule>...};
}

void update(const UpdateRule& rule, std::span<const UpdateBlock> blocks,
            const UpdateFactors& factors) {
  static constexpr auto kRuns = runs_of(rules::Rules());
  if (rule.function != nullptr) {
    for_elements(blocks, Foreign(rule, factors));
  } else {
    kRuns[rule.index](blocks, factors);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::flat::cpu {
namespace {

HWY_EXPORT(update);

}  // namespace

void update(const UpdateRule& rule, std::span<const UpdateBlock> blocks,
            const UpdateFactors& factors) {
  HWY_DYNAMIC_DISPATCH(update)(rule, blocks, factors);
}

}  // namespace mezzo::flat::cpu
#endif
