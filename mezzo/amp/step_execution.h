// How the body of a training step runs: by a call, or captured and replayed.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "mezzo/amp/batch.h"
#include "mezzo/core/tensor.h"

namespace mezzo::amp {

// The work of a step between the beginning and the end of its bookkeeping, as a function of the
// tensors of a batch.
using StepBody = std::function<void(std::span<const Tensor> batch)>;

// What distinguishes bodies that make different calls.
struct StepMode {
  const void* step = nullptr;    // whose body it is: host work refers to it
  std::uint64_t scaling = 0;     // GradScaler::mode()
  std::size_t params = 0;        // of the optimizer, which a group may have been added to
  BatchLayout layout{};          // of the batch
  bool shows_gradients = false;  // to observers

  bool operator==(const StepMode&) const = default;
};

// Runs the body of a step on a batch; graph mode captures it once and replays it
// (mezzo/graph/train_step.h). A default-constructed object is empty, and converts to false.
class StepExecution {
 public:
  using Run = std::function<void(const StepBody& body, const StepMode& mode,
                                 std::span<const Tensor> batch)>;

  StepExecution() = default;
  // `release_memory` frees the memory that `run` keeps from step to step, until the next step;
  // null: it keeps none.
  template <std::convertible_to<Run> F>
  requires(!std::same_as<F, StepExecution>)  // those are copied or moved
      StepExecution(F run,  // NOLINT(google-explicit-constructor): as functions are
                    std::function<void()> release_memory = {})
      : run_(std::move(run)), release_memory_(std::move(release_memory)) {}

  explicit operator bool() const { return run_ != nullptr; }
  void operator()(const StepBody& body, const StepMode& mode, std::span<const Tensor> batch) const {
    run_(body, mode, batch);
  }
  void release_memory() const {
    if (release_memory_) release_memory_();
  }

 private:
  Run run_;
  std::function<void()> release_memory_;
};

}  // namespace mezzo::amp
