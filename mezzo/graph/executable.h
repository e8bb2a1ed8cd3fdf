// Executable: a program with its memory and kernels, ready to run again and again.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/program.h"
#include "mezzo/graph/replay.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/fusion/norm_statistics.h"

namespace mezzo::graph {

// Runs the nodes of a program in their order: no shape is inferred, no memory looked for, no kernel
// chosen, nothing recorded. Results lie in one arena that is kept between runs, unless it is taken
// back; what the program returns is the caller's. With a recorder, parts of the program are
// recorded once they have run eagerly, and queued as a whole from then on. Not to be run by two
// threads at a time.
class Executable {
 public:
  // Throws ArgumentError for a program with states or host work that was only parsed.
  explicit Executable(Program program, std::unique_ptr<WorkRecorder> recorder = nullptr);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  // One run. Throws ArgumentError for inputs of other shapes, dtypes or strides than the captured
  // ones, and for those in the memory of parameters that host work changes. Host work that says so
  // ends the run early: then nothing is given back, and no leaf has a gradient. An exception leaves
  // no gradients either.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  // Has results lie in that memory, of at least memory().arena_bytes, from the next run on. Several
  // programs may share it that do not run at the same time: then each is called before its run, and
  // clear_slots() of the others. A program that was given none makes its own.
  void place_in(const Ref<Storage>& arena);
  Ref<Storage> make_arena() const;
  // Gives up weights that lie in the arena in their kernels' layouts.
  void clear_slots() const;
  // Lets go of the arena, of which nothing is needed from run to run.
  void leave_arena();
  // True for programs with recordings, which hold the places of all that they read and write, and
  // on devices, which may still compute with the arena of a run when the next one begins.
  bool keeps_arena() const { return replay_.has_value() || !program_.device.is_cpu(); }

  const Program& program() const { return program_; }
  const MemoryPlan& memory() const { return memory_; }
  // Null without a recorder.
  const Replay* replay() const { return replay_ ? &*replay_ : nullptr; }

 private:
  static constexpr const char* kOp = "graph";  // in messages

  struct Instruction {
    Node* node = nullptr;
    std::vector<const Tensor*> inputs{};
    std::vector<Tensor> outputs{};  // in the order of the node's; a fresh one is made in every run
    bool is_copy = false;           // of a parameter
    bool is_by_readers = false;     // its first result is computed when it is read
    bool is_empty = false;          // no element to compute
    bool is_ready = false;          // queued work whose host part is done in this run
    // Host work that may write slots: the writer of those.
    std::optional<std::size_t> writer{};
    std::optional<PreparedCall> call{};  // found when it is first run
    // Inputs that no later call of this operation reads. Weights in layouts of its kernels' own are
    // of no use to other operations and are given back.
    std::vector<ValueId> done{};
    // Gradients that calls behind host work read.
    std::vector<ValueId> read_by_calls{};
    // Values that nothing reads later, and that are better let go: 16-bit copies of parameters, for
    // an update renews what nobody holds, and what a reader may have had to fill.
    std::vector<ValueId> unneeded{};
    // The batch normalization that reads its result next, which can be given its statistics.
    Instruction* norm = nullptr;
    NormStatistics statistics{};  // of what it reads, found in this run
    // The slot whose weight it reads, as an index into memory_.packed_slots.
    std::optional<std::size_t> packed_slot{};
  };

  void check_runnable() const;
  void stage_inputs();
  void make_homes();
  // A tensor like that with memory of its own.
  static Tensor make(const ValueSpec& spec, Device device);
  Tensor in_arena(ValueId value) const;
  void make_instruction(Node& node);
  void find_done_inputs();
  void find_what_passes();
  void find_packed_slots();
  void find_norms();
  bool is_lasting(ValueId value) const;
  // True for views, copies of parameters and what is computed when it is read and finds nothing
  // else, which the host makes.
  static bool is_prepared(const Instruction& instruction) {
    const Node& node = *instruction.node;
    return !node.is_host() && (node.op->view != nullptr || instruction.is_copy ||
                               (instruction.is_by_readers && node.outputs.size() == 1));
  }

  void bind(std::span<const Tensor> inputs);
  void check_apart(const Tensor& input, std::size_t i) const;
  void check_no_gradients() const;
  void follow_states();
  void move_random_start();
  bool run_nodes(bool replays);
  bool run_instruction(Instruction& instruction);
  void prepare(Instruction& instruction);
  // The first result of one that is left to its readers, in executable_readers.cpp.
  Tensor result_when_read(const Instruction& instruction) const;
  static Tensor norm_when_read(const Instruction& instruction);
  void run_kernel(Instruction& instruction);
  void place_outputs(Instruction& instruction);
  void queue(Instruction& instruction);
  void call_kernel(Instruction& instruction) const;
  void let_go(const Instruction& instruction);
  void drop_packed(const Instruction& instruction);
  bool run_host(Instruction& instruction);
  void make_ready(Instruction& instruction);
  std::vector<Tensor> take_outputs();
  void forget();

  // What host work needs, in executable_gradients.cpp.
  void find_read_gradients();
  void lend_gradients(const Instruction& instruction) const;
  void keep_gradient(const Instruction& instruction, ValueId value, const Tensor& grad);
  template <class Work>
  bool with_gradients(const Instruction& instruction, const Work& work);

  // What replays need, in executable_replay.cpp.
  Part part_of(const Instruction& instruction) const;
  void prepare_queued(const Segment& segment);
  void take_copies_again(const Segment& segment);
  void plan_replay();
  bool run_segment(RecordedSegment& segment);
  bool record(RecordedSegment& segment);
  void look_around(const RecordedSegment& segment);

  Program program_;
  MemoryPlan memory_;
  std::vector<Tensor> slots_;  // what each value is at the moment
  std::vector<Tensor> homes_;  // what it is in every run; undefined if that changes
  Ref<Storage> arena_;
  std::vector<Instruction> instructions_;
  // States of which views have homes, and where they were when those were made.
  std::vector<std::pair<ValueId, Ref<Storage>>> viewed_;
  std::vector<ValueId> passing_;    // values without such a home
  std::vector<Tensor*> fresh_;      // results of instructions that are made in every run
  std::vector<ValueId> gradients_;  // that host work may replace
  std::optional<Replay> replay_;
  Circumstances now_;            // of the segment that is about to run
  std::size_t recorded_to_ = 0;  // the instruction that a recording has come to
};

// Does host work while the gradients of its leaves are those that the program has.
template <class Work>
bool Executable::with_gradients(const Instruction& instruction, const Work& work) {
  const Node& node = *instruction.node;
  struct ClearGrads {
    std::span<const Tensor> leaves;
    ~ClearGrads() {
      for (const Tensor& leaf : leaves) leaf.clear_grad();
    }
  } in_the_end{node.leaves};
  const std::size_t first = instruction.inputs.size() - node.leaves.size();
  std::vector<Tensor> reads;
  for (std::size_t i = 0; i < first; ++i) reads.push_back(*instruction.inputs[i]);
  lend_gradients(instruction);
  bool goes_on = true;
  const GradMode recording(node.records_calls);
  if (node.region != nullptr) {
    node.region->run([&] { goes_on = work(reads); });
  } else {
    goes_on = work(reads);
  }
  for (std::size_t i = 0; i < node.leaves.size(); ++i) {
    const ValueId grad = node.inputs[first + i];
    if (grad != kNoValue && node.leaves[i].grad().defined())
      keep_gradient(instruction, grad, node.leaves[i].grad());
  }
  return goes_on;
}

}  // namespace mezzo::graph
