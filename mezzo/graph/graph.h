// Graph: a training or inference step as a class, captured at its first call.
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/step_buffers.h"
#include "mezzo/graph/compile.h"

namespace mezzo::graph {

// Options of a graph. After a change the graph is captured again at its next call.
class GraphConfig {
 public:
  // Whether build() runs in a region of mixed precision, at level auto. Regions around the call of
  // a graph are ignored; settings of modules apply.
  void enable_amp(bool mode = true, DType dtype = DType::kF16);
  // Sets a policy, with any level and user rules.
  void enable_amp(const amp::Policy& policy);
  // Leaves out a pass, by its name in graph/passes/passes.h.
  void disable_pass(std::string name);
  // Sets the number of programs that are kept, for different shapes and modes.
  void keep_programs(std::size_t most);
  // Whether parts of programs are recorded, on devices that can (graph/replay.h).
  void enable_recording(const RecordOptions& record);

  // Whether running statistics and other buffers of the graph's modules are restored if an overflow
  // skips the step. Otherwise they keep the values of that step, even infinities, as in OneFlow and
  // PyTorch.
  void restore_buffers(bool mode = true);

  const std::optional<amp::Policy>& amp() const { return amp_; }
  const PassOptions& passes() const { return passes_; }
  std::size_t most_programs() const { return most_programs_; }
  const RecordOptions& record() const { return record_; }
  bool restores_buffers() const { return restores_buffers_; }
  std::uint64_t changes() const { return changes_; }

 private:
  std::optional<amp::Policy> amp_;  // none: no region
  PassOptions passes_;
  std::size_t most_programs_ = CompileOptions{}.most_programs;
  RecordOptions record_;
  bool restores_buffers_ = false;
  std::uint64_t changes_ = 0;
};

// The effect of a run on one optimizer.
struct GraphUpdate {
  amp::StepResult step{};
  std::optional<double> grad_norm{};  // before clipping, if there was any
};

struct AddOptimizerOptions {
  // If given, the common norm of the optimizer's gradients is clipped to this value.
  std::optional<double> max_grad_norm{};
};

// The base of all graphs, which does not depend on the signature of build(). Objects that are added
// to it must outlive it.
class GraphBase {
 public:
  GraphBase(const GraphBase&) = delete;
  GraphBase& operator=(const GraphBase&) = delete;
  virtual ~GraphBase() = default;

  GraphConfig config{};

  // The program of the last run, for example for to_text(). Throws ArgumentError before the first
  // run.
  const Program& program() const;
  // The number of programs that are kept.
  std::size_t programs() const { return step_.has_value() ? step_->programs() : 0; }
  // Frees the memory of results, on CPUs, until the next run.
  void release_memory() {
    if (step_.has_value()) step_->release_memory();
  }
  // The effects of the last run, one for each optimizer.
  const std::vector<GraphUpdate>& updates() const { return updates_; }

 protected:
  GraphBase() = default;

  // Adds a network that build() uses: it gives the program its names, and changes of its modes,
  // hooks and parameters are detected.
  void add_module(nn::Module& net);
  // Adds an optimizer, which steps after build() and whose gradients are then dropped. Several
  // optimizers all step or, if one has a gradient that is not finite, all skip. Throws
  // ArgumentError if another one has one of its parameters.
  void add_optimizer(optim::Optimizer& optimizer, const AddOptimizerOptions& options = {});
  // Scales the argument of backward(), and makes the optimizers skip if gradients overflow. The
  // second overload stores the scaler.
  void set_grad_scaler(amp::GradScaler& scaler);
  void set_grad_scaler(amp::GradScaler&& scaler);

  // Runs the backward pass of the scaled loss; call it within build(). Throws ArgumentError if
  // there is no optimizer.
  void backward(const Tensor& loss);

  std::vector<Tensor> run(std::span<const Tensor> inputs);

 private:
  struct Trained {
    optim::Optimizer* optimizer;
    AddOptimizerOptions options;
  };

  virtual std::vector<Tensor> build_any(std::span<const Tensor> inputs) = 0;

  bool trains() const { return !trained_.empty(); }
  std::uint64_t mode();
  CompiledStep& step();
  std::vector<Tensor> capture_step(std::span<const Tensor> inputs);
  std::vector<Tensor> build_watched(std::span<const Tensor> inputs);
  void check_gradients() const;
  void note_update();
  bool queue_update();
  bool note_update_by_leaf();
  amp::GradScaler& scaler() { return scaler_ != nullptr ? *scaler_ : no_scaler_; }
  void update();
  void step_all();
  void drop_gradients() const;
  void give_up();

  std::vector<nn::Module*> networks_;
  amp::StepBuffers buffers_;
  std::vector<Trained> trained_;
  amp::GradScaler* scaler_ = nullptr;
  std::unique_ptr<amp::GradScaler> own_scaler_;
  amp::GradScaler no_scaler_{{}, false};
  bool has_backward_ = false;  // since build() began
  std::vector<GraphUpdate> updates_;
  std::optional<CompiledStep> step_;
  std::uint64_t changes_ = 0;  // of the configuration when the step was made
  std::atomic<bool> is_running_ = false;
};

template <class T>
inline constexpr bool kIsTensors = false;
template <>
inline constexpr bool kIsTensors<Tensor> = true;
template <>
inline constexpr bool kIsTensors<std::vector<Tensor>> = true;
template <std::size_t n>
inline constexpr bool kIsTensors<std::array<Tensor, n>> = true;

// A step of a network, as in OneFlow's nn.Graph. Graph<Tensor(Tensor, Tensor)> takes two tensors
// and returns one; the result may also be a std::array<Tensor, n> or a std::vector<Tensor>.
//
//   class TrainGraph : public Graph<Tensor(Tensor, Tensor)> {
//    public:
//     TrainGraph(nn::Module& net, optim::Optimizer& sgd, amp::GradScaler& scaler) : net_(net) {
//       add_module(net);
//       add_optimizer(sgd);
//       set_grad_scaler(scaler);
//       config.enable_amp(true, DType::kF16);
//     }
//
//    private:
//     Tensor build(const Tensor& x, const Tensor& labels) override {
//       const Tensor loss = cross_entropy(net_(x), labels);
//       backward(loss);
//       return loss;
//     }
//     nn::Module& net_;
//   };
//
//   TrainGraph graph(net, sgd, scaler);
//   const Tensor loss = graph(x, labels);
//
// build() is captured once for every shape, dtype and mode of the networks, and computes nothing
// then (see capture.h). A call runs the program, including the update. Gradients are unscaled,
// checked and clipped, the optimizers step or skip, and the scale is updated. The gradients of
// optimizers and networks are dropped before and after the run. Each run has its own update:
// gradients cannot be accumulated over several runs.
//
// A graph has one caller at a time: a call during another one, by another thread or from within
// build(), throws ArgumentError.
//
// A graph without an optimizer records no tape: it is for inference. The user chooses the mode of
// its networks, as with all graphs. A graph has no state for checkpoints: networks, optimizers and
// scaler have theirs as usual.
//
// A call throws ArgumentError like capture(), for undefined inputs, if build() calls a module that
// was not added, and if there is an optimizer but no backward pass. It passes on other exceptions
// of build(). Gradients and scale are then as if the run had not begun. So are parameters and their
// optimizers' state, except after an exception in the middle of a run on a CPU that has begun to
// update them (passes.h, update_in_backward).
template <class Signature>
class Graph;

template <class Result, class... Inputs>
class Graph<Result(Inputs...)> : public GraphBase {
  static_assert(kIsTensors<Result>, "build() must return a Tensor, an array or a vector of them");
  static_assert((std::same_as<Inputs, Tensor> && ...), "build() must take tensors");

 public:
  Result operator()(const Inputs&... inputs) {
    const std::array<Tensor, sizeof...(Inputs)> all{inputs...};
    return result_of(run(all));
  }

 protected:
  virtual Result build(const Inputs&... inputs) = 0;

 private:
  // Host work of the user may end a run early; then there are no results.
  static Result result_of(std::vector<Tensor> tensors) {
    if constexpr (std::same_as<Result, std::vector<Tensor>>) {
      return tensors;
    } else if constexpr (std::same_as<Result, Tensor>) {
      return tensors.empty() ? Tensor() : tensors.front();
    } else {
      Result result{};
      for (std::size_t i = 0; i < tensors.size(); ++i) result[i] = std::move(tensors[i]);
      return result;
    }
  }

  std::vector<Tensor> build_any(std::span<const Tensor> inputs) override {
    return build_with(inputs, std::index_sequence_for<Inputs...>());
  }
  template <std::size_t... i>
  std::vector<Tensor> build_with([[maybe_unused]] std::span<const Tensor> inputs,
                                 std::index_sequence<i...>) {
    if constexpr (std::same_as<Result, Tensor>) {
      return {build(inputs[i]...)};
    } else {
      const Result result = build(inputs[i]...);
      return {result.begin(), result.end()};
    }
  }
};

}  // namespace mezzo::graph

namespace mezzo {
using graph::Graph;
}  // namespace mezzo
