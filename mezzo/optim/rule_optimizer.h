// Optimizers whose step is an update rule: state for each parameter, numbers for a step, and a
// function of an element.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "mezzo/ops/update/update_rule.h"
#include "mezzo/ops/update/update_step.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

// What an optimizer of one's own derives from. It states its rules and their numbers; the steps,
// eager and captured, state dicts, checkpoints and 16-bit parameters are here and in Optimizer.
//
//   void sign_descent(const RulePiece& piece) {
//     for (std::size_t i = 0; i < piece.param.size(); ++i) {
//       piece.param[i] -= piece.factors[0] * (piece.grad[i] > 0 ? 1 : -1);
//     }
//   }
//   const UpdateRule kSignDescent{.name = "sign_descent", .function = sign_descent};
//
//   class SignDescent final : public optim::RuleOptimizer {
//    public:
//     SignDescent(const std::vector<Tensor>& params, double lr)
//         : RuleOptimizer("SignDescent", kSignDescent) {
//       add_group(params, lr, optim::ParamUpdate::kMaster);
//     }
//
//    private:
//     GroupRule rule_of(std::size_t group) const override {
//       return {&kSignDescent, Factors(std::array{static_cast<float>(lr(group))})};
//     }
//   };
//
// State: `<slot>.<parameter>` for each slot of the rule, from the first step with a gradient on;
// counters: `step.<parameter>`, if steps are counted.
//
// A group may keep its state in bf16 or e4m3: see ops/update/narrow_state.h. e4m3 has besides
// `<slot>_scale.<parameter>` (f32), the scales of blocks of 256 elements in the order of memory:
// with shape [blocks], or [blocks, 1] if that order is channels-last, so that neither is taken for
// the other. Then there is the counter `state_rounding.seed`, of the stream of random numbers with
// which state is rounded. It is seeded from default_generator() when the first such group is added.
class RuleOptimizer : public Optimizer {
 public:
  std::vector<NamedTensor> state() const final;
  std::vector<NamedCounter> counters() const final;
  Tensor whole_like(const NamedTensor& entry) const final;
  void set_state(std::string_view name, const Tensor& tensor) final;
  void set_counter(std::string_view name, std::int64_t value) final;
  void clear_state() final;

 protected:
  using Factors = flat::RuleNumbers<flat::kMostFactors>;
  using Own = flat::RuleNumbers<flat::kMostOwn>;

  enum class Steps : bool { kNotCounted, kCounted };

  // The rule of a group's next update, with the numbers that all parameters share.
  struct GroupRule {
    const UpdateRule* rule;  // outlives the optimizer
    Factors factors{};
  };
  // Where a parameter is.
  struct Turn {
    std::int64_t step = 1;  // which step of it this is, from 1; always 1 unless steps are counted
    bool is_new = true;     // its state has just been made, of zeros
  };

  // `name` is what messages call the optimizer; `most` is the rule with the most slots of those
  // that groups may have: its slots' names are those of the state.
  RuleOptimizer(const char* name, const UpdateRule& most, Steps steps = Steps::kNotCounted);

  // Optimizer::add_group() with a dtype of the state: f32, bf16 or e4m3. Throws ArgumentError for
  // others, too.
  void add_group(const std::vector<Tensor>& params, const LearningRate& lr, ParamUpdate rule,
                 DType state_dtype = DType::kF32);

  virtual GroupRule rule_of(std::size_t group) const = 0;
  // The numbers of one parameter.
  virtual Own own_of(std::size_t /*group*/, const Turn& /*turn*/) const { return {}; }

 private:
  using Slots = std::array<Tensor, flat::kMostSlots>;

  void update(std::size_t group, const std::vector<Active>& active, double inv_scale,
              UpdateQueue* queue) final;
  void count_step(const std::vector<Active>& active) final;
  void grow();
  // The state of parameter i for a step, created if it does not exist yet.
  void set_state_of(std::size_t i, const UpdateRule& rule, UpdateTensors& tensors);
  DType state_dtype(std::size_t i) const;
  // Whether the name is that of scales, not of a slot.
  bool is_of_scales(std::string_view state_name) const;
  static Tensor empty_scales(const Tensor& param);
  void set_scales(std::string_view state_name, const Tensor& tensor);
  void check_state_dtype(std::size_t i, std::string_view state_name, const Tensor& tensor) const;
  RandomPosition state_random(std::size_t i) const;
  // The slot whose state has that name, else the first.
  std::size_t slot_of(std::string_view state_name) const;
  std::size_t slot_named(const char* slot_name) const;

  SlotNames slot_names_;
  std::size_t slot_count_;
  Steps counts_steps_;
  std::deque<Slots> slots_;          // one for each parameter; ensure() remembers places in it
  std::deque<Slots> scales_;         // the same, of e4m3 state
  std::vector<DType> state_dtypes_;  // what was asked for, for each parameter
  std::vector<std::uint64_t> state_starts_{0};  // of its random words in those of an update
  std::optional<std::uint64_t> state_seed_{};   // only with narrow state
  std::vector<std::int64_t> steps_;
};

}  // namespace mezzo::optim
