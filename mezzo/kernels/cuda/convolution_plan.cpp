#include "mezzo/kernels/cuda/convolution_plan.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/cudnn_descriptor.h"
#include "mezzo/kernels/cuda/recorder.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr std::int64_t kMostEngines = 8;
constexpr std::int64_t kMostWorkspace = 1LL << 30;
enum Uid : std::int64_t { kX = 1, kWeight = 2, kY = 3 };

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return CUDNN_DATA_BFLOAT16;
    case DType::kF16: return CUDNN_DATA_HALF;
    default: return CUDNN_DATA_FLOAT;
  }
}

// `alignment` is what all pointers have; an element's own size is one that cuDNN insists on.
Descriptor describe_tensor(Uid uid, const std::array<std::int64_t, 4>& sizes, DType dtype,
                           std::int64_t alignment) {
  alignment = std::max(alignment, static_cast<std::int64_t>(size_of(dtype)));
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto [n, c, h, w] = sizes;
  const std::array<std::int64_t, 4> strides{h * w * c, 1, w * c, c};
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(dtype));
  tensor.set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  tensor.set_numbers(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<std::int64_t>(uid));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  tensor.finalize();
  return tensor;
}

Descriptor describe_window(const Conv2dAttrs& attrs) {
  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  // Sums are f32 for every dtype: a 16-bit sum stops growing after some hundred terms.
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             CUDNN_CROSS_CORRELATION);
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
  const auto pair = [&](cudnnBackendAttributeName_t name, std::int64_t h, std::int64_t w) {
    window.set_numbers(name, std::array<std::int64_t, 2>{h, w});
  };
  pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, attrs.padding.top, attrs.padding.left);
  pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, attrs.padding.bottom, attrs.padding.right);
  pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, attrs.dilation.h, attrs.dilation.w);
  pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, attrs.stride.h, attrs.stride.w);
  window.finalize();
  return window;
}

// What cuDNN calls the parts of a pass.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, weight, y, window, alpha, beta;
};

PassNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::kGradInput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::kGradWeight: break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

Descriptor describe_graph(cudnnHandle_t handle, const ConvProblem& p) {
  const auto type_for = [&](ConvPass result_of) {
    return p.pass == result_of ? p.result : p.dtype;
  };
  const Descriptor x = describe_tensor(kX, p.x, type_for(ConvPass::kGradInput), p.alignment);
  const Descriptor weight =
      describe_tensor(kWeight, p.weight, type_for(ConvPass::kGradWeight), p.alignment);
  const Descriptor y = describe_tensor(kY, p.y, type_for(ConvPass::kForward), p.alignment);
  const Descriptor window = describe_window(p.attrs);
  const PassNames names = names_of(p.pass);
  Descriptor operation(names.operation);
  operation.set(names.x, x);
  operation.set(names.weight, weight);
  operation.set(names.y, y);
  operation.set(names.window, window);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  operation.finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  return graph;
}

// False for engines that would give other numbers than sums of f32 products in a fixed order.
bool is_exact(const Descriptor& config, const ConvProblem& p) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
              "cudnnBackendGetAttribute");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check_cudnn(
      cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()),
      "cudnnBackendGetAttribute");
  for (std::int64_t i = 0; i < count; ++i) {
    switch (notes[static_cast<std::size_t>(i)]) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        // Of f32 numbers: they are rounded to TF32.
        if (p.dtype == DType::kF32 && !p.tf32) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: break;
      // The others: inputs or sums rounded to 16 bits, transforms whose constants are not exact
      // (Winograd, FFT), and atomic additions, which come in any order.
      default: return false;
    }
  }
  return true;
}

struct Plan {
  Descriptor execution;
  std::int64_t workspace = 0;
};

std::optional<Plan> make_plan(cudnnHandle_t handle, const Descriptor& config,
                              const ConvProblem& problem) {
  try {
    if (!is_exact(config, problem)) return std::nullopt;
    Descriptor execution(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    execution.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    execution.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    execution.finalize();
    std::int64_t workspace = 0;
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(execution.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &workspace),
                "cudnnBackendGetAttribute");
    if (workspace > kMostWorkspace) return std::nullopt;
    return Plan{std::move(execution), workspace};
  } catch (const CudnnRefusal&) {
    return std::nullopt;  // this engine does not take the problem after all
  }
}

void add_plans(cudnnHandle_t handle, const Descriptor& graph, cudnnBackendHeurMode_t mode,
               const ConvProblem& problem, std::vector<Plan>& plans) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  heuristic.finalize();
  constexpr std::int64_t kMostConfigs = 64;
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < kMostConfigs; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  std::int64_t count = 0;
  check_cudnn(
      cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostConfigs, &count, raw.data()),
      "cudnnBackendGetAttribute");
  for (std::int64_t i = 0; i < count && std::ssize(plans) < kMostEngines; ++i) {
    if (auto plan = make_plan(handle, configs[static_cast<std::size_t>(i)], problem)) {
      plans.push_back(std::move(*plan));
    }
  }
}

bool is_measuring() {
  static const bool measuring = [] {
    const char* text = std::getenv("MEZZO_CUDNN_MEASURE");  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr || std::string_view(text) != "0";
  }();
  return measuring;
}

// Queues a plan; false if it refuses, or has no room to work in.
bool execute(Context& context, const Plan& plan, const ConvPointers& pointers) {
  try {
    const Scratch workspace(static_cast<std::size_t>(plan.workspace), context.device());
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const std::array<void*, 3> data{pointers.x, pointers.weight, pointers.y};
    const std::array<std::int64_t, 3> uids{kX, kWeight, kY};
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::span<void* const>(data));
    pack.set_numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace.as());
    pack.finalize();
    check_cudnn(cudnnBackendExecute(context.cudnn(), plan.execution.get(), pack.get()),
                "cudnnBackendExecute");
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

// Milliseconds of some runs, the first not counted; infinite if the plan refuses.
float time_of(Context& context, const Plan& plan, const ConvPointers& pointers) {
  constexpr int kRuns = 3;
  constexpr float kNever = std::numeric_limits<float>::infinity();
  if (!execute(context, plan, pointers)) return kNever;
  struct Event {
    Event() { MEZZO_CUDA_CHECK(cudaEventCreate(&event)); }
    ~Event() { static_cast<void>(cudaEventDestroy(event)); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    cudaEvent_t event = nullptr;
  };
  const Event start;
  const Event stop;
  MEZZO_CUDA_CHECK(cudaEventRecord(start.event, context.stream()));
  for (int i = 0; i < kRuns; ++i) {
    if (!execute(context, plan, pointers)) return kNever;
  }
  MEZZO_CUDA_CHECK(cudaEventRecord(stop.event, context.stream()));
  MEZZO_CUDA_CHECK(cudaEventSynchronize(stop.event));
  float ms = 0;
  MEZZO_CUDA_CHECK(cudaEventElapsedTime(&ms, start.event, stop.event));
  return ms;
}

}  // namespace

class ConvPlans {
 public:
  ConvProblem problem;
  std::vector<Plan> plans{};  // as cuDNN recommends them; only the chosen one once it is chosen
  bool is_chosen = false;

  bool choose(Context& context, const ConvPointers& pointers) {
    std::size_t best = plans.size();
    float best_ms = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (is_measuring()) {
        const float ms = time_of(context, plans[i], pointers);
        if (ms >= best_ms) continue;
        best = i;
        best_ms = ms;
      } else if (execute(context, plans[i], pointers)) {
        best = i;
        break;
      }
    }
    is_chosen = true;
    if (best == plans.size()) {
      plans.clear();
      return false;
    }
    Plan chosen = std::move(plans[best]);
    plans.clear();
    plans.push_back(std::move(chosen));
    return true;
  }
};

ConvPlans* find_plans(Context& context, const ConvProblem& problem) {
  struct Entry {
    Device device;
    std::unique_ptr<ConvPlans> plans;
  };
  thread_local std::vector<Entry> entries;  // dozens: one for each shape and pass of a network
  for (const Entry& entry : entries) {
    if (entry.device == context.device() && entry.plans->problem == problem) {
      return entry.plans->plans.empty() ? nullptr : entry.plans.get();
    }
  }
  refuse_while_recording("cuDNN has yet to be asked for engines");
  const OnDevice on(context.device());
  auto made = std::make_unique<ConvPlans>();
  made->problem = problem;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!made->plans.empty()) break;
    try {
      cudnnHandle_t handle = context.cudnn();
      add_plans(handle, describe_graph(handle, problem), mode, problem, made->plans);
    } catch (const CudnnRefusal&) {
      made->plans.clear();  // it knows nothing for such a graph
    }
  }
  entries.push_back({context.device(), std::move(made)});
  ConvPlans* plans = entries.back().plans.get();
  return plans->plans.empty() ? nullptr : plans;
}

bool run_convolution(Context& context, ConvPlans& plans, const ConvPointers& pointers) {
  const OnDevice on(context.device());
  if (!plans.is_chosen) refuse_while_recording("cuDNN's engines for it have yet to be measured");
  if (!plans.is_chosen && !plans.choose(context, pointers)) return false;
  if (plans.plans.empty()) return false;
  if (execute(context, plans.plans.front(), pointers)) return true;
  refuse_while_recording("cuDNN's engine refuses");
  return false;
}

}  // namespace mezzo::kernels::cuda
