// Capture: calls are noted instead of computed, and become a graph (mezzo/graph).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "mezzo/core/scoped.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// Work of a step that is no call of an operation: statistics that move on, a check, an update. It
// gets the tensors that it reads, and says whether the step is to go on.
using HostWork = std::function<bool(std::span<const Tensor> reads)>;

// Whether host work must be done at its place among the calls.
enum class HostWorkTime : std::uint8_t {
  kInPlace,
  // It may be done later, before other host work that stands behind it: nothing else of the step
  // reads or writes what it changes.
  kCanWait,
  // It may be done earlier, behind other host work that stands before it: it needs nothing that
  // calls compute, and they read what it changes only behind it. Of no effect if it has `reads`
  // or `leaves`.
  kCanGoAhead,
};

// Host work over leaves in parts, each for some of them: begin(), some() with other leaves each
// time until all were there, in any order, and end() do what the work as a whole does. A leaf has
// its gradient while it is among them.
struct LeafWork {
  std::function<void()> begin;
  std::function<void(std::span<const std::size_t> leaves)> some;  // places in HostCall::leaves
  std::function<void()> end;
  std::vector<Tensor> changes{};  // besides the leaves, if they existed before
};

struct HostCall {
  const char* name;
  std::span<const Tensor> reads;
  std::span<const Tensor> leaves;  // whose gradients it reads, changes or drops
  HostWork work;
  HostWorkTime time = HostWorkTime::kInPlace;
  // If given, `work` only queues kernels, the same in every run, on `reads`, gradients of `leaves`
  // and memory of its own that stays where it is: a recording can hold it. This is called before,
  // in every run, for what differs from run to run; the numbers in `reads` and gradients are not
  // there yet then. Where it is recorded, `time` does not matter: it keeps its place.
  std::function<void()> prepare{};
  // If given, `work` may be done in these parts instead, each as soon as its leaves' gradients are
  // complete. It reads nothing else, and nothing that stands before it tells it not to work.
  std::shared_ptr<const LeafWork> by_leaf{};
};

// What notes the calls of a thread.
class CaptureHook {
 public:
  // True if it decides what regions of mixed precision do: prepare() is then called instead of the
  // region's hook, for calls outside of regions, too.
  virtual bool decides_precision() const = 0;
  // Asked where x is cast to the dtype that it has: true if that is a call all the same, because x
  // may have another dtype in the end.
  virtual bool notes_cast_to_same(const Tensor& x) = 0;
  // True if parts of the program are going to be recorded: worth it to queue what host work does.
  virtual bool records() const = 0;
  // Casts all operands of a call that have to be, for the sake of a common dtype, too.
  virtual void prepare(const OpDef& op, Operands& operands) = 0;
  // A tensor on that device that stands for the result of a call. It has no elements.
  virtual Tensor make_result(const TensorSpec& spec, Device device) = 0;
  // A call that is noted. `over` are tensors that the caller is done with (see call_over()).
  virtual void on_call(const FinishedCall& call, Inputs over) = 0;
  // One whose result replaces the elements of its only output (see call_into()).
  virtual void on_change(const FinishedCall& call) = 0;
  virtual void on_host_call(HostCall call) = 0;
  // Gradients that are being dropped.
  virtual void on_zero_grad(std::span<const Tensor> leaves) = 0;
  // Around the traversal of the tape.
  virtual void begin_backward() = 0;
  virtual void end_backward() = 0;

 protected:
  ~CaptureHook() = default;
};

// The hook of this thread, null if nothing is being captured.
CaptureHook* capture_hook();
void set_capture_hook(CaptureHook* hook);

// Drops the gradients of leaves. While a step is captured, that is noted: only a step that drops
// those of the run before may leave gradients.
void zero_grad(std::span<const Tensor> leaves);

// While it exists, this thread does and notes no host work: for passes that are computed again.
class WithoutHostWork {
 public:
  WithoutHostWork();

 private:
  Scoped<bool> scope_;
};
bool does_host_work();

// Does the work now; while a step is captured, notes it instead, to be done at this place of every
// run, and goes on. Tensors among the captured variables of `work` must exist between the runs; all
// others it gets as `reads`.
template <class Work>
bool do_host_work(const char* name, std::span<const Tensor> reads, std::span<const Tensor> leaves,
                  Work&& work, HostWorkTime time = HostWorkTime::kInPlace) {
  if (!does_host_work()) return true;
  CaptureHook* hook = capture_hook();
  if (hook == nullptr) return work(reads);
  hook->on_host_call({name, reads, leaves, std::forward<Work>(work), time});
  return true;
}

// True while a step is captured whose parts are going to be recorded: CaptureHook::records().
inline bool captures_for_recording() {
  const CaptureHook* hook = capture_hook();
  return hook != nullptr && hook->records();
}

// Does prepare() and work() now; while a step is captured whose parts are recorded, notes them as
// HostCall has it, else as one piece of host work.
template <class Prepare, class Work>
void do_queued_work(const char* name, std::span<const Tensor> reads, std::span<const Tensor> leaves,
                    const Prepare& prepare, const Work& work,
                    HostWorkTime time = HostWorkTime::kInPlace) {
  if (!captures_for_recording()) {
    const auto both = [prepare, work](std::span<const Tensor> tensors) {
      prepare();
      work(tensors);
      return true;
    };
    do_host_work(name, reads, leaves, both, time);
  } else if (does_host_work()) {
    const auto queue = [work](std::span<const Tensor> tensors) { return work(tensors), true; };
    capture_hook()->on_host_call({name, reads, leaves, queue, time, prepare});
  }
}

// True while a step is captured whose host work may be done in parts.
inline bool captures_by_leaf() {
  const CaptureHook* hook = capture_hook();
  return hook != nullptr && !hook->records();
}

// Notes such work.
inline void note_by_leaf(const char* name, std::span<const Tensor> leaves, LeafWork work) {
  if (!does_host_work()) return;
  const auto parts = std::make_shared<const LeafWork>(std::move(work));
  const auto all = [parts, count = leaves.size()](std::span<const Tensor>) {
    std::vector<std::size_t> places(count);
    std::iota(places.begin(), places.end(), std::size_t{0});
    parts->begin();
    parts->some(places);
    parts->end();
    return true;
  };
  capture_hook()->on_host_call(
      {.name = name, .reads = {}, .leaves = leaves, .work = all, .by_leaf = parts});
}

// For functions that look at numbers themselves: notes `work()` as host work if a step is being
// captured, and says so; the caller then does nothing else.
template <class Work>
bool note_if_captured(const char* name, std::span<const Tensor> leaves, const Work& work) {
  if (capture_hook() == nullptr) return false;
  do_host_work(name, {}, leaves, [work](std::span<const Tensor>) {
    work();
    return true;
  });
  return true;
}

}  // namespace mezzo
