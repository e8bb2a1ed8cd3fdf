#include "mezzo/kernels/cuda/convolution_plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/log.h"
#include "mezzo/core/shape.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/convolution_engines.h"
#include "mezzo/kernels/cuda/convolution_graph.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"
#include "mezzo/kernels/cuda/event.h"
#include "mezzo/kernels/cuda/recorder.h"
#include "mezzo/kernels/cuda/timer.h"

namespace mezzo::kernels::cuda {
namespace {

const char* name_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward: return "conv2d";
    case ConvPass::kGradInput: return "conv2d_grad_input";
    case ConvPass::kGradWeight: break;
  }
  return "conv2d_grad_weight";
}

struct Plan {
  Descriptor execution;
  std::int64_t workspace = 0;
  std::int64_t engine = -1;
  double making_s = 0;
};

// Nullopt if the engine rejects the problem after all, or needs too much memory.
std::optional<Plan> make_plan(cudnnHandle_t handle, const EngineConfig& of) {
  // For 256 images, f32 engines for the largest layers of ResNet-50 need 1.2 GB. If the GPU's
  // memory is too small, the next engine is tried.
  constexpr std::int64_t kMostWorkspace = 1LL << 32;
  try {
    const auto start = std::chrono::steady_clock::now();
    Descriptor execution(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    execution.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    execution.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, of.config);
    execution.finalize();
    std::int64_t workspace = 0;
    std::int64_t count = 0;
    check_cudnn(cudnn_library().cudnnBackendGetAttribute(execution.get(),
                                                         CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                         CUDNN_TYPE_INT64, 1, &count, &workspace),
                "cudnnBackendGetAttribute");
    if (workspace > kMostWorkspace) return std::nullopt;
    const std::chrono::duration<double> making = std::chrono::steady_clock::now() - start;
    return Plan{std::move(execution), workspace, of.engine, making.count()};
  } catch (const CudnnRefusal&) {
    return std::nullopt;
  }
}

double count_of(const std::array<std::int64_t, 4>& sizes) {
  double count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<double>(size);
  return count;
}

bool is_measuring() {
  static const bool measuring = [] {
    const char* text = std::getenv("MEZZO_CUDNN_MEASURE");  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr || std::string_view(text) != "0";
  }();
  return measuring;
}

// A plan with all that it needs to run, once or several times.
class ReadyPlan {
 public:
  ReadyPlan(Context& context, const Plan& plan, const ConvPointers& pointers)
      : context_(context),
        plan_(plan),
        workspace_(static_cast<std::size_t>(plan.workspace), context.device()),
        pack_(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    const std::array<void*, 3> data{pointers.x, pointers.weight, pointers.y};
    const std::array<std::int64_t, 3> uids{kConvX, kConvWeight, kConvY};
    pack_.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
              std::span<void* const>(data));
    pack_.set_numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
    pack_.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace_.as());
    pack_.finalize();
  }

  void queue() const {
    check_cudnn(
        cudnn_library().cudnnBackendExecute(context_.cudnn(), plan_.execution.get(), pack_.get()),
        "cudnnBackendExecute");
  }

  // Milliseconds of the fastest of several runs after a first one, which loads kernels. If the
  // first is far slower than the best engine so far, it is the only one: some engines take a
  // hundred times as long as others.
  float time(float best_ms) const {
    constexpr int kRuns = 3;
    constexpr float kLoadingMs = 20;
    const float first_ms = time_once();
    if (first_ms > 2 * best_ms + kLoadingMs) return first_ms;
    float ms = std::numeric_limits<float>::infinity();
    for (int i = 0; i < kRuns; ++i) ms = std::min(ms, time_once());
    return ms;
  }

 private:
  float time_once() const {
    const Event start;
    const Event stop;
    queue_head_start(context_.stream());
    MEZZO_CUDA_CHECK(cudaEventRecord(start.get(), context_.stream()));
    queue();
    MEZZO_CUDA_CHECK(cudaEventRecord(stop.get(), context_.stream()));
    MEZZO_CUDA_CHECK(cudaEventSynchronize(stop.get()));
    float ms = 0;
    MEZZO_CUDA_CHECK(cudaEventElapsedTime(&ms, start.get(), stop.get()));
    return ms;
  }

  Context& context_;
  const Plan& plan_;
  Scratch workspace_;
  Descriptor pack_;
};

// kFull: the GPU had no memory for the workspace, which may be different at another time.
enum class Outcome : std::uint8_t { kDone, kRefused, kFull };

// Runs or times a plan by use().
template <class Use>
Outcome attempt(Context& context, const ConvProblem& problem, const Plan& plan,
                const ConvPointers& pointers, const Use& use) {
  const auto log = [&](const DeviceError& error) {
    logging::write(logging::Topic::kDispatch, text_of(problem),
                   ": a cuDNN engine is skipped: ", error.what());
  };
  std::optional<ReadyPlan> ready;
  try {
    ready.emplace(context, plan, pointers);
    use(*ready);
    return Outcome::kDone;
  } catch (const CudnnRefusal& refusal) {
    log(refusal);
    return Outcome::kRefused;
  } catch (const DeviceError& error) {
    if (ready) throw;  // the GPU failed
    log(error);
    return Outcome::kFull;
  }
}

}  // namespace

std::string text_of(const ConvProblem& p) {
  const auto sizes = [](const std::array<std::int64_t, 4>& s) {
    return Shape{s[0], s[1], s[2], s[3]};
  };
  return concat(name_of(p.pass), " of ", p.dtype, " to ", p.result, ", x ", sizes(p.x), ", weight ",
                sizes(p.weight), ", y ", sizes(p.y));
}

// The engines for a problem. Plans are made only when needed: cuDNN takes milliseconds for one, and
// seconds if it has to compile it.
class ConvPlans {
 public:
  explicit ConvPlans(const ConvProblem& of) : problem(of) {}

  bool is_chosen() const { return chosen_.has_value(); }

  // True if there is an engine that takes the problem and has not failed.
  bool has_any(Context& context) {
    if (chosen_ || !made_.empty()) return true;
    if (configs_.empty() && asked_ == kQuestions.size()) return false;
    refuse_while_recording("cuDNN's engines have not been queried yet");
    if (std::optional<Plan> plan = next_plan(context, true)) made_.push_back(std::move(*plan));
    return !made_.empty();
  }

  // Queues the convolution on the chosen engine, or on another one if that refuses.
  bool run(Context& context, const ConvPointers& pointers) {
    while (chosen_ || choose(context, pointers)) {
      const Outcome outcome = attempt(context, problem, *chosen_, pointers,
                                      [](const ReadyPlan& plan) { plan.queue(); });
      if (outcome == Outcome::kDone) return true;
      refuse_while_recording("cuDNN's engine refuses the call");
      if (outcome == Outcome::kFull) return false;
      // Its kernels may be part of recordings.
      retired_.push_back(std::move(*chosen_));
      chosen_.reset();
      compiled_ = 0;
    }
    return false;
  }

  ConvProblem problem;

 private:
  // The queries to cuDNN, made one after the other until an engine is found.
  struct Question {
    cudnnBackendHeurMode_t mode;
    ConvTail tail;
  };
  static constexpr std::array<Question, 4> kQuestions{
      {{CUDNN_HEUR_MODE_A, ConvTail::kNone},
       {CUDNN_HEUR_MODE_A, ConvTail::kHandsOnSums},
       {CUDNN_HEUR_MODE_FALLBACK, ConvTail::kNone},
       {CUDNN_HEUR_MODE_FALLBACK, ConvTail::kHandsOnSums}}};

  static constexpr int kMostCompiled = 2;

  // Nullopt if there are no more. Further queries are made last, and only if `more_questions`.
  std::optional<Plan> next_plan(Context& context, bool more_questions) {
    if (!made_.empty()) {
      Plan plan = std::move(made_.front());
      made_.pop_front();
      return plan;
    }
    while (true) {
      while (!configs_.empty()) {
        const EngineConfig next = std::move(configs_.front());
        configs_.pop_front();
        if (next.is_compiled_at_run_time && compiled_ == kMostCompiled) continue;
        if (chosen_ && is_hopeless(next)) continue;
        std::optional<Plan> plan = make_plan(context.cudnn(), next);
        if (!plan) continue;
        if (next.is_compiled_at_run_time) ++compiled_;
        return plan;
      }
      if (asked_ == kQuestions.size() || (asked_ > 0 && !more_questions)) return std::nullopt;
      ask(context, kQuestions[asked_++]);
    }
  }

  // cuDNN's engine 0 is plain loops. It is the fastest for some problems of a few megaflops, but
  // takes seconds for large ones (about a hundredth of other engines' rate on an H100).
  bool is_hopeless(const EngineConfig& engine) const {
    constexpr double kMostFlops = 1e8;
    const double flops = 2.0 * count_of(problem.y) * count_of(problem.weight) /
                         static_cast<double>(problem.weight[0]);
    return engine.engine == 0 && flops > kMostFlops;
  }

  void ask(Context& context, const Question& question) {
    if (question.tail == ConvTail::kHandsOnSums && problem.result == problem.dtype) return;
    try {
      graphs_.push_back(describe_graph(context.cudnn(), problem, question.tail));
      for (EngineConfig& config : exact_engines(graphs_.back(), question.mode, problem)) {
        configs_.push_back(std::move(config));
      }
    } catch (const CudnnRefusal& refusal) {
      logging::write(logging::Topic::kDispatch, text_of(problem),
                     ": cuDNN recommends no engine: ", refusal.what());
    }
  }

  void log_time(const Plan& plan, float ms) const {
    logging::write(logging::Topic::kDispatch, text_of(problem), ": engine ", plan.engine, " takes ",
                   ms, " ms and ", plan.workspace, " bytes, made in ", plan.making_s, " s");
  }

  // False if no engine can run. That is final, unless some lacked memory: these are tried again.
  bool choose(Context& context, const ConvPointers& pointers) {
    if (!is_measuring()) {
      chosen_ = next_plan(context, true);
      return is_chosen();
    }
    constexpr std::size_t kMostEngines = 8;
    constexpr std::size_t kInReserve = 4;
    // For f32 weight gradients, the first query finds a single exact engine, often the slower one.
    const bool is_f32 = problem.dtype == DType::kF32 && !problem.tf32;
    float best_ms = std::numeric_limits<float>::infinity();
    std::deque<Plan> without_room;
    for (std::size_t i = 0; i < kMostEngines; ++i) {
      std::optional<Plan> plan = next_plan(context, !chosen_ || is_f32);
      if (!plan) break;
      float ms = 0;
      const Outcome outcome = attempt(context, problem, *plan, pointers,
                                      [&](const ReadyPlan& ready) { ms = ready.time(best_ms); });
      if (outcome == Outcome::kFull) without_room.push_back(std::move(*plan));
      if (outcome == Outcome::kDone) log_time(*plan, ms);
      if (outcome != Outcome::kDone || ms >= best_ms) continue;
      best_ms = ms;
      chosen_ = std::move(plan);
    }
    if (!chosen_) made_ = std::move(without_room);
    // Keeps a few in reserve, in case the chosen one refuses later; a full list per shape would add
    // up.
    while (chosen_ && configs_.size() > kInReserve) configs_.pop_back();
    return is_chosen();
  }

  std::optional<Plan> chosen_;
  std::deque<Plan> made_;             // not refused so far
  std::vector<Plan> retired_;         // chosen before, then refused
  std::deque<EngineConfig> configs_;  // no plan made so far
  std::vector<Descriptor> graphs_;
  std::size_t asked_ = 0;  // index into kQuestions
  int compiled_ = 0;       // compiled at run time since the last refusal
};

ConvPlans* find_plans(Context& context, const ConvProblem& problem) {
  struct Entry {
    Device device;
    std::unique_ptr<ConvPlans> plans;
  };
  thread_local std::vector<Entry> entries;  // dozens: one per shape and pass of a network
  auto entry = std::ranges::find_if(entries, [&](const Entry& e) {
    return e.device == context.device() && e.plans->problem == problem;
  });
  if (entry == entries.end()) {
    entries.push_back({context.device(), std::make_unique<ConvPlans>(problem)});
    entry = entries.end() - 1;
  }
  const OnDevice on(context.device());
  return entry->plans->has_any(context) ? entry->plans.get() : nullptr;
}

bool run_convolution(Context& context, ConvPlans& plans, const ConvPointers& pointers) {
  const OnDevice on(context.device());
  if (!plans.is_chosen())
    refuse_while_recording("cuDNN's engines for it have not been measured yet");
  return plans.run(context, pointers);
}

}  // namespace mezzo::kernels::cuda
