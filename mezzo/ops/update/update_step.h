// Updates of parameters: everything that a step of an optimizer does to them, in one pass over
// memory, and all parameters in one parallel loop.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/update/narrow_state.h"
#include "mezzo/ops/update/param_update.h"
#include "mezzo/ops/update/update_rule.h"

namespace mezzo {

// The additional state for updating a 16-bit parameter; ignored for f32.
struct HalfUpdate {
  ParamUpdate rule = ParamUpdate::kMaster;
  Tensor master{};        // for kMaster: f32, initially the parameter
  Tensor compensation{};  // for kKahan: in the parameter's dtype, initially zeros
  RandomPosition
      random{};  // for kStochastic: element i is rounded with the 16-bit number i from here
};

// One parameter's tensors, of one shape and dense in one format. The parameter is f32 or in 16
// bits; its gradient is f32, or in the parameter's dtype; state is f32, or all of it bf16 or e4m3.
struct UpdateTensors {
  Tensor param{};
  Tensor grad{};
  std::array<Tensor, flat::kMostSlots> slots{};  // the rule's state; undefined beyond that
  // Of e4m3 state: scales_of(numel) f32 numbers for each slot.
  std::array<Tensor, flat::kMostSlots> scales{};
  // Of bf16 and e4m3 state: a multiple of four words into the stream. Element i of slot k is
  // rounded with the 16-bit number i from state_words * k words later on. `state_words` is
  // state_words(numel), of the whole parameter where this is a part of it; 0 stands for this one's.
  RandomPosition state_random{};
  std::int64_t state_words = 0;
  flat::RuleNumbers<flat::kMostOwn> own{};  // the rule's numbers for this parameter
  HalfUpdate half{};
};

// What is the same for all parameters of an update.
struct UpdateStep {
  const UpdateRule* rule = nullptr;  // which outlives the update, and a queue that it is put into
  flat::RuleNumbers<flat::kMostFactors> factors{};
  double inv_scale = 1;  // the gradient is multiplied by this, to take out a loss scale
};

// Updates parameters and state in place; nothing is recorded. Throws ArgumentError naming the index
// of a tensor that does not fit, and UnsupportedError if a rule that is a function meets parameters
// that are not on the CPU.
//
// All of it is computed in f32, for 16-bit parameters too: their values, and 16-bit gradients, are
// widened exactly, before inv_scale is applied; only the result is rounded, as param_update.h says.
// State of fewer than 32 bits is widened and rounded as narrow_state.h says.
void update_step(std::span<const UpdateTensors> tensors, const UpdateStep& step);

// The conditions that a queued update reads when it runs, on the device of its parameters.
struct UpdateConditions {
  // i32; the update does nothing unless all of them are flat::kNothingBad. Undefined: it always
  // runs.
  Tensor flags{};
  // Gradients whose norm after unscaling exceeds max_norm are scaled down to it. `squares`: the sum
  // of their squares (f64), see QueuedCheck; undefined: no clipping.
  Tensor squares{};
  double max_norm = 0;
};

// An update whose kernel is queued separately from the host's part, so that a recording can hold
// the kernel. The list that the kernel works on is in device memory and is rewritten before every
// launch. So addresses, learning rates and step counts may differ between launches.
//
//   queued.put(tensors, step);  // before every launch
//   queued.queue(flags);        // this is recorded
//   queued.keep();              // once the update is known to have run, else drop()
//
// The results are those of update_step().
class QueuedUpdate {
 public:
  // For at most `params` parameters on a device.
  QueuedUpdate(std::size_t params, Device device);

  // Throws ArgumentError like update_step(), before anything has changed, and for more parameters
  // than there is room for. Gradients need only lie where they will: they are read when the work is
  // done.
  void put(std::span<const UpdateTensors> tensors, const UpdateStep& step);
  // The kernel, for as many parameters as were put last.
  void queue(const UpdateConditions& conditions) const;
  // If the update has run: counts its changes.
  void keep();
  // If flags prevented it: releases the gradients, and copies that others may renew.
  void drop();

  Device device() const { return list_.device(); }

 private:
  Tensor list_;  // on the device: the factors, then the blocks
  const UpdateRule* rule_ = nullptr;
  double moved_bytes_ = 0;  // by one update, for profiles
  std::size_t count_ = 0;
  std::vector<UpdateTensors> tensors_;
  std::vector<RenewedCopy> copies_;
};

// Makes `master` fit to a 16-bit parameter that may have been changed by others: elements whose
// rounding is not the parameter's become the parameter's, the others keep their f32 bits.
void refresh_master(const Tensor& param, const Tensor& master);

}  // namespace mezzo
