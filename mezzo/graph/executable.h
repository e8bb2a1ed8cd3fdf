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

// Runs the nodes of a program in order, without inferring shapes, allocating memory, choosing
// kernels or recording a tape. Results lie in one arena that is kept between runs, unless it is
// taken away; tensors that the program returns belong to the caller. With a recorder, parts of the
// program are recorded after they have run eagerly, and then queued as a whole. Must not be run by
// two threads at a time.
class Executable {
 public:
  // Throws ArgumentError for a program with states or host work that was only parsed from text.
  explicit Executable(Program program, std::unique_ptr<WorkRecorder> recorder = nullptr);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable();

  // Runs the program once: its host work is left out under WithoutHostWork, and each call is
  // reported to a listener of this thread's calls, under the name that it had at the capture.
  // Throws ArgumentError for inputs whose shapes, dtypes or strides differ
  // from the captured ones, and for inputs in the memory of parameters that host work changes. Host
  // work may end the run early: then nothing is returned, and no leaf has a gradient. After an
  // exception there are no gradients either.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  // Places results in that memory, of at least memory().arena_bytes, from the next run on. Several
  // programs that do not run at the same time may share it: then place_in() is called before each
  // run, and clear_slots() of the others. A program without a given arena allocates its own.
  void place_in(const Ref<Storage>& arena);
  Ref<Storage> make_arena() const;
  // Frees weights in kernels' own layouts that lie in the arena.
  void clear_slots() const;
  // Releases the arena, whose contents are not needed between runs.
  void leave_arena();
  // True for programs with recordings, which hold the addresses of everything that they read and
  // write, and for programs on devices, which may still use the arena of a run when the next one
  // begins.
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
    std::vector<Tensor> outputs{};  // like the node's outputs; some change in every run
    bool is_copy = false;           // the 16-bit copy of a parameter
    bool is_by_readers = false;     // its first result is computed when it is read
    bool is_empty = false;          // no elements to compute
    bool is_ready = false;          // queued work whose host part was done in this run
    // The node index, for host work that may write slots.
    std::optional<std::size_t> writer{};
    std::optional<PreparedCall> call{};  // chosen in the first run
    // Inputs that no later call of this operation reads. Their copies in kernels' own layouts are
    // useless to other operations and are freed.
    std::vector<ValueId> done{};
    // Gradients that calls after this host work read.
    std::vector<ValueId> read_by_calls{};
    // Values that nothing reads later and that should be released. These are 16-bit copies of
    // parameters, because an update only renews copies that nobody holds, and pending results,
    // which a reader may have filled.
    std::vector<ValueId> unneeded{};
    // The batch normalization that reads this result next and can be given its statistics.
    Instruction* norm = nullptr;
    NormStatistics statistics{};  // of its input, found in this run
    // The slot that holds its weight, as an index into memory_.packed_slots.
    std::optional<std::size_t> packed_slot{};
  };

  void check_runnable() const;
  void stage_inputs();
  void make_homes();
  // Allocates a tensor like that.
  static Tensor make(const ValueSpec& spec, Device device);
  Tensor in_arena(ValueId value) const;
  void make_instruction(Node& node);
  void find_done_inputs();
  void find_what_passes();
  void find_packed_slots();
  void find_norms();
  bool is_lasting(ValueId value) const;
  // True for views, copies of parameters, and pending results without further outputs: the host
  // makes them.
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
  void tell_listener(const Instruction& instruction) const;
  void prepare(Instruction& instruction);
  // The pending first result of such an instruction, in executable_readers.cpp.
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

  // Functions for host work, in executable_gradients.cpp.
  void find_read_gradients();
  void lend_gradients(const Instruction& instruction) const;
  void keep_gradient(const Instruction& instruction, ValueId value, const Tensor& grad);
  template <class Work>
  bool with_gradients(const Instruction& instruction, const Work& work);

  // Functions for replays, in executable_replay.cpp.
  Part part_of(const Instruction& instruction) const;
  void prepare_queued(const Segment& segment);
  void take_copies_again(const Segment& segment);
  void plan_replay();
  bool run_segment(RecordedSegment& segment);
  bool record(RecordedSegment& segment);
  void look_around(const RecordedSegment& segment);

  Program program_;
  MemoryPlan memory_;
  std::vector<Tensor> slots_;  // the current tensor of each value
  std::vector<Tensor> homes_;  // its tensor in every run; undefined if that changes
  Ref<Storage> arena_;
  std::vector<Instruction> instructions_;
  // States whose views have homes, and their storages when those views were made.
  std::vector<std::pair<ValueId, Ref<Storage>>> viewed_;
  std::vector<ValueId> passing_;    // values without a home
  std::vector<Tensor*> fresh_;      // results of instructions that are allocated in every run
  std::vector<ValueId> gradients_;  // gradients that host work may replace
  std::optional<Replay> replay_;
  Circumstances now_;            // for the segment that is about to run
  std::size_t recorded_to_ = 0;  // the instruction that a recording has reached
};

// Does host work while its leaves have the program's gradients.
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
