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

// Work of a step that is not a call of an operation: an update of running statistics, a check, an
// update of parameters. It gets the tensors that it reads, and returns whether the step continues.
using HostWork = std::function<bool(std::span<const Tensor> reads)>;

// Whether host work must be done at its place among the calls.
enum class HostWorkTime : std::uint8_t {
  kInPlace,
  // It may be done later, before the host work that follows it: nothing else in the step reads or
  // writes what it changes.
  kCanWait,
  // It may be done earlier, after the host work that precedes it: it needs nothing that calls
  // compute, and only later calls read what it changes. Has no effect if there are `reads` or
  // `leaves`.
  kCanGoAhead,
};

// Host work on leaves that can be done in parts. Calling begin(), then some() for disjoint groups
// of leaves, in any order, until all were there, and then end() has the effect of the whole work. A
// leaf's gradient is available when the leaf is in the group.
struct LeafWork {
  std::function<void()> begin;
  std::function<void(std::span<const std::size_t> leaves)> some;  // indices into HostCall::leaves
  std::function<void()> end;
  std::vector<Tensor> changes{};  // other tensors that it changes, if they existed before
};

struct HostCall {
  const char* name;
  std::span<const Tensor> reads;
  std::span<const Tensor> leaves;  // leaves whose gradients it reads, changes or drops
  HostWork work;
  HostWorkTime time = HostWorkTime::kInPlace;
  // If given, `work` only queues kernels, the same in every run, on `reads`, on gradients of
  // `leaves`, and on memory of its own at fixed addresses, so a recording can hold it. prepare() is
  // called before each run for what differs between runs; the values of `reads` and the gradients
  // are not available yet. When recorded, `time` does not matter: the work keeps its place.
  std::function<void()> prepare{};
  // If given, `work` may be done in these parts instead, each as soon as its leaves' gradients are
  // complete. It reads nothing else, and no earlier host work can stop it.
  std::shared_ptr<const LeafWork> by_leaf{};
};

// Receives the calls of a thread during a capture.
class CaptureHook {
 public:
  // True if this hook decides what mixed-precision regions do: prepare() is then called instead of
  // the region's hook, and for calls outside of regions, too.
  virtual bool decides_precision() const = 0;
  // Called where x is cast to the dtype that it has. True if this still counts as a call, because x
  // may have another dtype in the end.
  virtual bool notes_cast_to_same(const Tensor& x) = 0;
  // True if parts of the program will be recorded, so that host work should be queued.
  virtual bool records() const = 0;
  // Casts all operands of a call that need it, including casts to a common dtype.
  virtual void prepare(const OpDef& op, Operands& operands) = 0;
  // A tensor without elements on that device, which stands for the result of a call.
  virtual Tensor make_result(const TensorSpec& spec, Device device) = 0;
  // Notes a call. `over` are tensors that the caller no longer needs (see call_over()).
  virtual void on_call(const FinishedCall& call, Inputs over) = 0;
  // Notes a call whose result replaces the elements of its only output (see call_into()).
  virtual void on_change(const FinishedCall& call) = 0;
  virtual void on_host_call(HostCall call) = 0;
  // Notes that gradients are dropped.
  virtual void on_zero_grad(std::span<const Tensor> leaves) = 0;
  // Called before and after the traversal of the tape.
  virtual void begin_backward() = 0;
  virtual void end_backward() = 0;

 protected:
  ~CaptureHook() = default;
};

// The hook of this thread; null if nothing is being captured.
CaptureHook* capture_hook();
void set_capture_hook(CaptureHook* hook);

// Drops the gradients of leaves. During a capture this is noted, because only a step that drops the
// gradients of the previous run may leave gradients.
void zero_grad(std::span<const Tensor> leaves);

// While it exists, this thread neither does nor notes host work: for forward passes that are
// recomputed.
class WithoutHostWork {
 public:
  WithoutHostWork();

 private:
  Scoped<bool> scope_;
};
bool does_host_work();

// Does the work now. During a capture, notes it instead, to be done at this place of every run, and
// returns true. Tensors that `work` captures as variables must exist between the runs; it gets all
// others as `reads`.
template <class Work>
bool do_host_work(const char* name, std::span<const Tensor> reads, std::span<const Tensor> leaves,
                  Work&& work, HostWorkTime time = HostWorkTime::kInPlace) {
  if (!does_host_work()) return true;
  CaptureHook* hook = capture_hook();
  if (hook == nullptr) return work(reads);
  hook->on_host_call({name, reads, leaves, std::forward<Work>(work), time});
  return true;
}

// True during a capture of a step whose parts will be recorded: CaptureHook::records().
inline bool captures_for_recording() {
  const CaptureHook* hook = capture_hook();
  return hook != nullptr && hook->records();
}

// Calls prepare() and work() now. During a capture for recording, notes them as a HostCall with
// `prepare`; during another capture, as one piece of host work.
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

// True during a capture of a step whose host work may be done in parts.
inline bool captures_by_leaf() {
  const CaptureHook* hook = capture_hook();
  return hook != nullptr && !hook->records();
}

// Notes host work that may be done in parts.
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

// For functions that read values on the host: during a capture, notes `work()` as host work and
// returns true; the caller then does nothing else.
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
