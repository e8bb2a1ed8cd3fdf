// compile(): a step that is captured when it is first called, and replayed from then on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mezzo/graph/capture.h"
#include "mezzo/graph/executable.h"
#include "mezzo/graph/one_run.h"
#include "mezzo/graph/pass.h"
#include "mezzo/graph/replay.h"
#include "mezzo/nn/module.h"

namespace mezzo::graph {

struct CompileOptions {
  // The networks that the step uses. Their parameters give the program its names, which begin with
  // `net0.`, `net1.`, ... if there are several, and when their modes, hooks or parameters are
  // others than at the capture, the step is captured again.
  std::vector<nn::Module*> networks{};
  // What else the step depends on, as a number; null: nothing.
  std::function<std::uint64_t()> mode{};
  // Passes that are left out, by the names in passes/passes.h. Without `paint_precision`, regions
  // of mixed precision cast as they do eagerly.
  PassOptions passes{};
  // How many programs are kept, for different shapes and modes; the one that was not used for the
  // longest time goes first. On CPUs their results lie in the same memory, in turn; on devices each
  // holds its own.
  std::size_t most_programs = 4;
  // Whether devices that can record parts of the program.
  RecordOptions record{};
};

// Captures a step and improves the program: precision is painted (passes/paint_precision.h) where
// the step has regions of mixed precision, then passes/passes.h cleans up. `log` gets what each
// pass did. `records`: parts of the program are going to be recorded.
Program capture_improved(const Step& step, std::span<const Tensor> inputs,
                         const CompileOptions& options, PassLog* log = nullptr,
                         bool records = false);
// The same without the cleaning up: every call that the step makes, with the casts that were
// decided.
Program capture_as_called(const Step& step, std::span<const Tensor> inputs,
                          const CompileOptions& options);
// The forward part of the step as capture_improved() paints it, before the casts that this takes:
// each call says in which dtype it is to compute, and why. If the pass that paints is left out,
// nothing is painted, and the casts are those that regions make eagerly.
Program painted_forward(const Step& step, std::span<const Tensor> inputs,
                        const CompileOptions& options);

// A step, and the programs that were captured of it. It is captured again for inputs of another
// shape, dtype or memory format, in another mode, with recording or a region of mixed precision
// switched differently, or if one of the tensors that it knows is trained and was not, or the other
// way round. The networks and all else that the step refers to must outlive it.
//
// A step has one caller at a time: results lie in memory that all runs use. A call while another
// one runs, by another thread or from within the step, throws ArgumentError.
class CompiledStep {
 public:
  explicit CompiledStep(Step step, CompileOptions options = {});
  CompiledStep(CompiledStep&&) noexcept;
  CompiledStep& operator=(CompiledStep&&) noexcept;
  ~CompiledStep();

  // One run of the step. Throws ArgumentError like capture(), and whatever the step throws. What is
  // thrown in the midst of a run finds parameters updated that the run had come to.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs);

  // The program of the last run; null before the first.
  const Executable* latest() const;
  // Gives back the memory that results lie in, on CPUs; the next run asks for it again. For what is
  // done between runs, such as an evaluation. Throws ArgumentError while the step runs.
  void release_memory();
  // Programs that are kept.
  std::size_t programs() const { return entries_.size(); }

 private:
  struct Key;
  struct Entry;

  Key key_of(std::span<const Tensor> inputs) const;
  Entry& find_or_capture(std::span<const Tensor> inputs);
  void give_memory(Executable& next);
  void take_memory();

  Step step_;
  CompileOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;  // the last used one is the last
  Ref<Storage> arena_;                           // in which those on CPUs lie, in turn
  const Executable* in_arena_ = nullptr;         // whose turn it is
  // Null once it was moved from.
  std::unique_ptr<std::atomic<bool>> is_running_ = std::make_unique<std::atomic<bool>>(false);
};

CompiledStep compile(Step step, CompileOptions options = {});

}  // namespace mezzo::graph
