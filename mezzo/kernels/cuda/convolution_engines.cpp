#include "mezzo/kernels/cuda/convolution_engines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

namespace mezzo::kernels::cuda {
namespace {

Descriptor engine_of(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  check_cudnn(
      cudnn_library().cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
      "cudnnBackendGetAttribute");
  return engine;
}

// An engine's notes of one kind: at most `kMost`, however many cuDNN says there are.
template <class Note, std::size_t kMost>
std::vector<Note> notes_of(const Descriptor& engine, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type) {
  std::array<Note, kMost> notes{};
  std::int64_t count = 0;
  check_cudnn(cudnn_library().cudnnBackendGetAttribute(engine.get(), name, type, std::ssize(notes),
                                                       &count, notes.data()),
              "cudnnBackendGetAttribute");
  const std::int64_t given = std::clamp<std::int64_t>(count, 0, std::ssize(notes));
  return {notes.begin(), notes.begin() + given};
}

// False for engines whose results are not sums of f32 products in a fixed order.
bool is_exact(const Descriptor& engine, const ConvProblem& p) {
  for (const auto note : notes_of<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT>(
           engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE)) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        // Rounds f32 operands to TF32.
        if (p.dtype == DType::kF32 && !p.tf32) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        // Rounds to 16 bits, which changes only f32 operands.
        if (p.dtype == DType::kF32) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: break;
      // Other notes: sums rounded to 16 bits, transforms with inexact constants (Winograd, FFT),
      // and atomic additions, whose order varies.
      default: return false;
    }
  }
  return true;
}

bool is_compiled_at_run_time(const Descriptor& engine) {
  const auto notes = notes_of<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT>(
      engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE);
  return std::ranges::find(notes, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != notes.end();
}

std::vector<Descriptor> recommended(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
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
  check_cudnn(cudnn_library().cudnnBackendGetAttribute(
                  heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  kMostConfigs, &count, raw.data()),
              "cudnnBackendGetAttribute");
  // It may count more than there was room for.
  const std::int64_t given = std::clamp<std::int64_t>(count, 0, kMostConfigs);
  configs.erase(configs.begin() + given, configs.end());
  return configs;
}

std::int64_t number_of(const Descriptor& engine) {
  std::int64_t number = -1;
  std::int64_t count = 0;
  check_cudnn(cudnn_library().cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                       CUDNN_TYPE_INT64, 1, &count, &number),
              "cudnnBackendGetAttribute");
  return number;
}

// Returns the configuration of a suitable engine, or nullopt.
std::optional<EngineConfig> judge(Descriptor config, const ConvProblem& problem) {
  try {
    const Descriptor engine = engine_of(config);
    if (!is_exact(engine, problem)) return std::nullopt;
    return EngineConfig{std::move(config), is_compiled_at_run_time(engine), number_of(engine)};
  } catch (const CudnnRefusal&) {
    return std::nullopt;  // if cuDNN does not describe an engine, it cannot be trusted
  }
}

}  // namespace

std::vector<EngineConfig> exact_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                        const ConvProblem& problem) {
  // Mixes the two kinds, so that some of each are among those that are measured, wherever the
  // heuristic ranks them. There is no time to compile all that need it.
  constexpr std::ptrdiff_t kBefore = 6;
  constexpr std::ptrdiff_t kMostAtRunTime = 5;
  std::vector<EngineConfig> engines;
  std::vector<EngineConfig> at_run_time;
  std::vector<EngineConfig> rest;
  for (Descriptor& config : recommended(graph, mode)) {
    std::optional<EngineConfig> fit = judge(std::move(config), problem);
    if (!fit) continue;
    if (!fit->is_compiled_at_run_time) {
      (std::ssize(engines) < kBefore ? engines : rest).push_back(std::move(*fit));
    } else if (std::ssize(at_run_time) < kMostAtRunTime) {
      at_run_time.push_back(std::move(*fit));
    }
  }
  for (std::vector<EngineConfig>* more : {&at_run_time, &rest}) {
    std::ranges::move(*more, std::back_inserter(engines));
  }
  return engines;
}

}  // namespace mezzo::kernels::cuda
