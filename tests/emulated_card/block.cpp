#include "tests/emulated_card/block.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/emulated_card/failure.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace mezzo::emulated_card {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStack = 256UL << 10U;

// A stack on which a function can stop in the middle and continue later.
class Fiber {
 public:
  // A fiber that runs `main` on a stack of its own.
  explicit Fiber(void (*main)()) {
    void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) give_up("no memory for the stack of a thread");
#ifdef __SANITIZE_ADDRESS__
    stack_ = stack;
#endif
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = kStack;
    context_.uc_link = nullptr;
    makecontext(&context_, main, 0);
  }
  // The fiber that is already running.
  Fiber() : has_started_(true) {}

  // Stops here and continues there. swapcontext() would ask the system for the signal mask every
  // time, which takes longer than most threads run. Under the address sanitizer it also clears the
  // shadow of a whole stack.
  void switch_to(Fiber& other) {
    void* fake_stack = nullptr;
    leave(other, &fake_stack);
    if (_setjmp(place_) == 0) {
      if (other.has_started_) _longjmp(other.place_, 1);
      other.has_started_ = true;
      setcontext(&other.context_);
    }
    arrive(fake_stack);
  }

  // Must be called where a fiber begins and where it continues. The address sanitizer has to know
  // which stack the program is on. It knows the stacks of the host's threads by itself, any of
  // which may be the next to run queued work.
#ifdef __SANITIZE_ADDRESS__
  static void arrive(void* fake_stack) {
    __sanitizer_finish_switch_fiber(fake_stack, &came_from->stack_, &came_from->stack_bytes_);
  }
  void leave(const Fiber& other, void** fake_stack) {
    __sanitizer_start_switch_fiber(fake_stack, other.stack_, other.stack_bytes_);
    came_from = this;
  }
#else
  static void arrive(void* /*fake_stack*/) {}
  void leave(const Fiber& /*other*/, void** /*fake_stack*/) {}
#endif

 private:
  ucontext_t context_{};  // where the fiber begins
  jmp_buf place_{};       // where the fiber stopped
  bool has_started_ = false;
#ifdef __SANITIZE_ADDRESS__
  const void* stack_ = nullptr;
  std::size_t stack_bytes_ = kStack;
  static inline Fiber* came_from = nullptr;
#endif
};

enum class State { kNew, kRunning, kAtBarrier, kInWarp, kDone };

struct Thread {
  uint3 place{};
  State state = State::kNew;
  std::int64_t waits_for = 0;  // the count of the barrier or warp at which it continues
  Line where;
  Fiber* fiber = nullptr;
};

// The values that the lanes of a warp exchange. Two places alternate: one is still being read when
// the first lane writes to the other.
struct Warp {
  using Value = std::array<unsigned char, 16>;
  std::int64_t exchanges = 0;  // completed so far
  unsigned arrived = 0;
  unsigned votes = 0;
  std::array<std::array<Value, kWarp>, 2> values{};
  std::array<unsigned, 2> results{};
};

class Block {
 public:
  void run(uint3 block, dim3 threads, const std::vector<unsigned>& order,
           const std::function<void()>& body);
  bool wait(bool any, Line where);
  unsigned exchange(unsigned mask, const void* value, std::size_t bytes, unsigned from, void* to,
                    bool vote);
  void forget(void* variable, std::size_t bytes);

  Position position;

 private:
  static void fiber_main();
  void run_new_threads();
  bool resume_a_thread();
  bool is_ready(const Thread& thread) const;
  void resume(unsigned index);
  void stop(State state, std::int64_t waits_for, Line where);
  [[noreturn]] void report_deadlock() const;

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<void*> forgotten_;
  const std::vector<unsigned>* order_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  std::size_t started_ = 0;
  std::size_t done_ = 0;
  unsigned current_ = 0;
  std::size_t next_ = 0;  // no thread before this place in the order can continue
  // The count of completed __syncthreads().
  std::int64_t barriers_ = 0;
  std::size_t at_barrier_ = 0;
  bool any_ = false;
  bool last_any_ = false;
  Line where_;

  Fiber scheduler_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

Block& block() {
  static auto* block = new Block;
  return *block;
}

uint3 place_of(unsigned i, dim3 sizes) {
  return {i % sizes.x, i / sizes.x % sizes.y, i / sizes.x / sizes.y};
}

// Each fiber runs threads until one of them waits. The fiber then belongs to that thread until it
// returns.
void Block::fiber_main() {
  Fiber::arrive(nullptr);
  Block& b = block();
  for (;;) {
    b.run_new_threads();
    Fiber* own = b.threads_[b.current_].fiber;
    b.idle_.push_back(own);
    own->switch_to(b.scheduler_);
  }
}

void Block::run_new_threads() {
  Fiber* own = threads_[current_].fiber;
  for (;;) {
    (*body_)();
    // The thread may have waited: others have run since, and it is the current one again.
    threads_[current_].state = State::kDone;
    ++done_;
    if (started_ == threads_.size()) return;
    current_ = (*order_)[started_++];
    threads_[current_].state = State::kRunning;
    threads_[current_].fiber = own;
    position.thread = threads_[current_].place;
  }
}

void Block::resume(unsigned index) {
  current_ = index;
  Thread& thread = threads_[index];
  thread.state = State::kRunning;
  position.thread = thread.place;
  scheduler_.switch_to(*thread.fiber);
}

void Block::stop(State state, std::int64_t waits_for, Line where) {
  Thread& thread = threads_[current_];
  thread.state = state;
  thread.waits_for = waits_for;
  thread.where = where;
  thread.fiber->switch_to(scheduler_);
}

bool Block::is_ready(const Thread& thread) const {
  if (thread.state == State::kAtBarrier) return barriers_ >= thread.waits_for;
  if (thread.state != State::kInWarp) return false;
  const auto index = static_cast<std::size_t>(&thread - threads_.data());
  return warps_[index / kWarp].exchanges >= thread.waits_for;
}

// Resumes the first thread in the order that can continue, so that some threads get as far ahead of
// the others as barriers allow.
bool Block::resume_a_thread() {
  while (next_ < order_->size()) {
    const unsigned index = (*order_)[next_++];
    if (!is_ready(threads_[index])) continue;
    resume(index);
    return true;
  }
  return false;
}

void Block::run(uint3 block, dim3 threads, const std::vector<unsigned>& order,
                const std::function<void()>& body) {
  position.block = block;
  threads_.assign(order.size(), Thread{});
  for (unsigned i = 0; i < threads_.size(); ++i) threads_[i].place = place_of(i, threads);
  warps_.assign((order.size() + kWarp - 1) / kWarp, Warp{});
  forgotten_.clear();
  order_ = &order;
  body_ = &body;
  started_ = done_ = at_barrier_ = 0;
  barriers_ = 0;
  next_ = 0;
  any_ = false;
  while (done_ < threads_.size()) {
    if (started_ < threads_.size()) {
      if (idle_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>(fiber_main));
        idle_.push_back(fibers_.back().get());
      }
      const unsigned index = order[started_++];
      threads_[index].fiber = idle_.back();
      idle_.pop_back();
      resume(index);
    } else if (!resume_a_thread()) {
      report_deadlock();
    }
  }
}

bool Block::wait(bool any, Line where) {
  if (at_barrier_ == 0) where_ = where;
  if (where.number != where_.number) {
    give_up(std::string("threads of a block wait at different places: ") + where.file + ":" +
            std::to_string(where.number) + " and " + where_.file + ":" +
            std::to_string(where_.number));
  }
  any_ = any_ || any;
  if (++at_barrier_ == threads_.size()) {
    last_any_ = any_;
    at_barrier_ = 0;
    any_ = false;
    ++barriers_;
    next_ = 0;
    stop(State::kAtBarrier, barriers_, where);  // so that the order decides which thread is next
  } else {
    stop(State::kAtBarrier, barriers_ + 1, where);
  }
  return last_any_;
}

unsigned Block::exchange(unsigned mask, const void* value, std::size_t bytes, unsigned from,
                         void* to, bool vote) {
  const unsigned lane = current_ % kWarp;
  const std::size_t index = current_ / kWarp;
  Warp& warp = warps_[index];
  const std::size_t lanes = std::min<std::size_t>(kWarp, threads_.size() - index * kWarp);
  const unsigned present = lanes == kWarp ? ~0U : (1U << lanes) - 1;
  if ((mask >> lane & 1U) == 0) give_up("a lane exchanges under a mask without itself");
  const auto turn = static_cast<std::size_t>(warp.exchanges % 2);
  if (bytes != 0) std::memcpy(&warp.values[turn][lane], value, bytes);
  warp.arrived |= 1U << lane;
  if (vote) warp.votes |= 1U << lane;
  if (warp.arrived == (mask & present)) {
    warp.results[turn] = warp.votes;
    warp.arrived = warp.votes = 0;
    ++warp.exchanges;
    next_ = 0;
    stop(State::kInWarp, warp.exchanges, {__FILE__, __LINE__});
  } else {
    stop(State::kInWarp, warp.exchanges + 1, {__FILE__, __LINE__});
  }
  if (to != nullptr) std::memcpy(to, &warp.values[turn][from % kWarp], bytes);
  return warp.results[turn];
}

void Block::forget(void* variable, std::size_t bytes) {
  if (std::find(forgotten_.begin(), forgotten_.end(), variable) != forgotten_.end()) return;
  forgotten_.push_back(variable);
  std::memset(variable, 0xFF, bytes);
}

void Block::report_deadlock() const {
  std::string text = "a block cannot go on:";
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const Thread& thread = threads_[i];
    if (i > 0 && threads_[i - 1].state == thread.state) continue;
    text += " thread " + std::to_string(i) + " on ";
    if (thread.state == State::kDone) {
      text += "have returned;";
    } else {
      text += std::string("wait at ") + thread.where.file + ":" +
              std::to_string(thread.where.number) + ";";
    }
  }
  give_up(text);
}

unsigned chosen_order = [] {
  const char* text = std::getenv("MEZZO_EMULATED_CARD_ORDER");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 0 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}();

// The first `count` integers, in the requested order.
std::vector<unsigned> order_of(unsigned count) {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0U);
  if (chosen_order == 1) std::reverse(order.begin(), order.end());
  if (chosen_order > 1) {
    std::mt19937 random(chosen_order);
    std::shuffle(order.begin(), order.end(), random);
  }
  return order;
}

}  // namespace

void set_order(unsigned order) { chosen_order = order; }

Position& position() { return block().position; }

void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& body) {
  Position& at = position();
  at.threads = threads;
  at.blocks = blocks;
  const std::vector<unsigned> order = order_of(threads.x * threads.y * threads.z);
  for (const unsigned i : order_of(blocks.x * blocks.y * blocks.z)) {
    block().run(place_of(i, blocks), threads, order, body);
  }
}

bool wait_for_block(bool any, Line where) { return block().wait(any, where); }

unsigned exchange_in_warp(unsigned mask, const void* value, std::size_t bytes, unsigned from,
                          void* to, bool vote) {
  return block().exchange(mask, value, bytes, from, to, vote);
}

void forget_shared(void* variable, std::size_t bytes) { block().forget(variable, bytes); }

}  // namespace mezzo::emulated_card
