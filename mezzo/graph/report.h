// GraphReport: what a captured step consists of, why it computes in which precision, and the memory
// that it takes.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "mezzo/graph/compile.h"
#include "mezzo/graph/pass.h"
#include "mezzo/graph/passes/paint_summary.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// The dtype that a node computes in: that of the floating-point inputs that may be cast, once they
// agree; for casts, and for nodes without such inputs, that of the result. Not for host work.
DType computing_dtype(const Program& program, const Node& node);

// One call of the forward part.
struct PaintedCall {
  std::string path{};  // of the module that called it; empty for the network itself
  std::string op{};
  DType dtype = DType::kF32;  // that it computes in
  std::string rule{};         // amp::rule_name()
  // `white`: was decided to compute in 16 bits; `black`: in f32; `none`: takes what comes.
  std::string colour{};
  std::string reason{};
};

// The calls of painted_forward(), without casts between f32 and 16 bits.
std::vector<PaintedCall> painted_calls(const Program& painted);

struct NamedCount {
  std::string name;
  std::size_t count = 0;
};

// In bytes. Results count as the allocator counts them, rounded up to 64.
struct GraphMemory {
  std::size_t arena = 0;  // for all results, but those that the program returns
  std::size_t least = 0;  // the most of them that is alive at a time: no arrangement takes less
  // The most that is alive at a time if every call that the step makes is done, each result has
  // memory of its own from the call that makes it to the last one that reads it, and none is
  // written over another.
  std::size_t eager = 0;
  std::size_t parameters = 0;        // that are trained
  std::size_t parameter_copies = 0;  // in 16 bits, as far as kernels look at them; they stay
  // All that exists between runs and is read by calls: parameters, buffers, constants. What only
  // host work knows, such as momentum and running statistics, is not among it.
  std::size_t states = 0;
};

struct GraphReport {
  std::size_t nodes = 0;                        // host work included
  std::array<std::size_t, 3> nodes_in_phase{};  // by Phase
  std::vector<NamedCount> ops{};                // calls by operation, the most frequent first
  std::vector<NamedCount> host_work{};          // likewise
  std::size_t inputs = 0;
  std::size_t parameters = 0;
  std::size_t other_states = 0;      // buffers and constants
  std::vector<PaintedCall> calls{};  // painted_calls(), with the dtypes that they run in
  PaintSummary paint{};              // of the calls before some are joined
  PassLog passes{};
  GraphMemory memory{};
};

// What is reported on. The step must outlive it.
struct StepPrograms {
  Program improved{};   // capture_improved()
  Program unfused{};    // the same without the passes that make one call of several
  Program painted{};    // painted_forward()
  Program as_called{};  // capture_as_called()
  PassLog passes{};
};
StepPrograms capture_programs(const Step& step, std::span<const Tensor> inputs,
                              const CompileOptions& options);

GraphReport report_on(const StepPrograms& step);

// How many there are of all.
std::size_t total(const std::vector<NamedCount>& counts);

}  // namespace mezzo::graph
