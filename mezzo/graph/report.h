// GraphReport: the parts of a captured step, the reasons for its precision, and the memory that it
// takes.
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

// The dtype that a node computes in: the common dtype of the floating-point inputs that may be
// cast. For casts, and for nodes without such inputs, it is that of the result. Not for host work.
DType computing_dtype(const Program& program, const Node& node);

// One call of the forward part.
struct PaintedCall {
  std::string path{};  // path of the calling module; empty for the network itself
  std::string op{};
  DType dtype = DType::kF32;  // dtype of the computation
  std::string rule{};         // amp::rule_name()
  // `white`: decided to compute in 16 bits; `black`: in f32; `none`: the dtype of its inputs.
  std::string colour{};
  std::string reason{};
};

// The calls of painted_forward(), without casts between f32 and 16 bits.
std::vector<PaintedCall> painted_calls(const Program& painted);

struct NamedCount {
  std::string name;
  std::size_t count = 0;
};

// Memory in bytes. Results count as in the allocator, rounded up to 64.
struct GraphMemory {
  std::size_t arena = 0;  // for all results except those that the program returns
  std::size_t least = 0;  // the most result bytes alive at a time: a lower bound
  // The most bytes alive at a time if every call of the step is executed and each result has memory
  // of its own, from the call that makes it to its last reader, without overwriting.
  std::size_t eager = 0;
  std::size_t parameters = 0;        // trained ones
  std::size_t parameter_copies = 0;  // in 16 bits, if kernels read them; they are kept
  // All tensors that exist between runs and that calls read: parameters, buffers, constants.
  // Tensors that only host work uses, such as momentum and running statistics, are not included.
  std::size_t states = 0;
};

struct GraphReport {
  std::size_t nodes = 0;                        // including host work
  std::array<std::size_t, 3> nodes_in_phase{};  // by Phase
  std::vector<NamedCount> ops{};                // calls by operation, the most frequent first
  std::vector<NamedCount> host_work{};          // the same for host work
  std::size_t inputs = 0;
  std::size_t parameters = 0;
  std::size_t other_states = 0;      // buffers and constants
  std::vector<PaintedCall> calls{};  // painted_calls(), with their final dtypes
  PaintSummary paint{};              // of the calls before fusion
  PassLog passes{};
  GraphMemory memory{};
};

// The programs to report on. The step must outlive them.
struct StepPrograms {
  Program improved{};   // capture_improved()
  Program unfused{};    // the same without fusions
  Program painted{};    // painted_forward()
  Program as_called{};  // capture_as_called()
  PassLog passes{};
};
StepPrograms capture_programs(const Step& step, std::span<const Tensor> inputs,
                              const CompileOptions& options);

GraphReport report_on(const StepPrograms& step);

// The sum of all counts.
std::size_t total(const std::vector<NamedCount>& counts);

}  // namespace mezzo::graph
