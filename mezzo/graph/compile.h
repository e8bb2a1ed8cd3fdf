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
  // `net0.`, `net1.`, ... if there are several. If their modes, hooks or parameters differ from
  // those at the capture, the step is captured again.
  std::vector<nn::Module*> networks{};
  // A number for everything else that the step depends on; null: nothing.
  std::function<std::uint64_t()> mode{};
  // Passes to leave out, by the names in passes/passes.h. Without `paint_precision`, regions of
  // mixed precision cast as in eager mode.
  PassOptions passes{};
  // The number of programs that are kept, for different shapes and modes; the least recently used
  // one is removed first. On CPUs they share the memory of their results; on devices each has its
  // own.
  std::size_t most_programs = 4;
  // Whether parts of the program are recorded, on devices that can.
  RecordOptions record{};
};

// Captures a step and improves the program: where the step has regions of mixed precision,
// precision is painted (passes/paint_precision.h), and then the passes of passes/passes.h run.
// `log` gets what each pass did. `records`: parts of the program will be recorded.
Program capture_improved(const Step& step, std::span<const Tensor> inputs,
                         const CompileOptions& options, PassLog* log = nullptr,
                         bool records = false);
// Captures a step without the passes of passes/passes.h: every call that the step makes, with the
// casts that were decided.
Program capture_as_called(const Step& step, std::span<const Tensor> inputs,
                          const CompileOptions& options);
// The forward part of the step as capture_improved() paints it, before casts are inserted: each
// call has the dtype that it will compute in, and the reason. If the pass that paints is left out,
// nothing is painted, and the casts are those that regions make in eager mode.
Program painted_forward(const Step& step, std::span<const Tensor> inputs,
                        const CompileOptions& options);

// A step, and the programs that were captured from it. It is captured again for inputs of another
// shape, dtype or memory format, in another mode, if recording or a region of mixed precision is
// switched differently, if direct sums (ops/exact_sums.h) are asked for and were not before, or if
// one of the tensors that it knows begins or ceases to be trained. The networks and everything else
// that the step refers to must outlive it.
//
// A step has one caller at a time, because results lie in memory that all runs use. A call during
// another one, by another thread or from within the step, throws ArgumentError.
class CompiledStep {
 public:
  explicit CompiledStep(Step step, CompileOptions options = {});
  CompiledStep(CompiledStep&&) noexcept;
  CompiledStep& operator=(CompiledStep&&) noexcept;
  ~CompiledStep();

  // Runs the step. Throws ArgumentError like capture(), and whatever the step throws. An exception
  // in the middle of a run leaves those parameters updated that the run had reached.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs);

  // The program of the last run; null before the first run.
  const Executable* latest() const;
  // Frees the memory of results, on CPUs; the next run allocates it again. For work between runs,
  // such as an evaluation. Throws ArgumentError while the step runs.
  void release_memory();
  // The number of programs that are kept.
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
  std::vector<std::unique_ptr<Entry>> entries_;  // in order of use, the most recently used one last
  Ref<Storage> arena_;                           // the shared memory of programs on CPUs
  const Executable* in_arena_ = nullptr;         // the program that currently uses it
  // Null after this object was moved from.
  std::unique_ptr<std::atomic<bool>> is_running_ = std::make_unique<std::atomic<bool>>(false);
};

CompiledStep compile(Step step, CompileOptions options = {});

}  // namespace mezzo::graph
