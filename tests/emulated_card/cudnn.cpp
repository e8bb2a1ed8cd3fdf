// cuDNN's backend interface on the emulated card: convolutions, as strict as the documentation.
#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <cudnn.h>

#include "tests/emulated_card/cudnn_convolution.h"
#include "tests/emulated_card/cudnn_node.h"
#include "tests/emulated_card/cudnn_rules.h"
#include "tests/emulated_card/cudnn_watch.h"
#include "tests/emulated_card/elements.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace mezzo::emulated_card {
namespace {

thread_local std::string last_error;

template <class Body>
cudnnStatus_t guarded(const char* call, const Body& body) {
  try {
    body();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Refusal& refusal) {
    last_error = refusal.why;
    const int category = CUDNN_STATUS_CATEGORY(refusal.status);
    report_refusal(call, refusal.why,
                   category == CUDNN_STATUS_BAD_PARAM || category == CUDNN_STATUS_NOT_INITIALIZED);
    return refusal.status;
  }
}

Tensor tensor_of(const Node& node) {
  Tensor tensor;
  switch (node.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    case CUDNN_DATA_FLOAT: tensor.type = Element::kF32; break;
    case CUDNN_DATA_BFLOAT16: tensor.type = Element::kBf16; break;
    case CUDNN_DATA_HALF: tensor.type = Element::kF16; break;
    default: throw Refusal{CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a type that is not emulated"};
  }
  const auto sizes = node.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = node.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  require(sizes.size() == strides.size(), CUDNN_STATUS_BAD_PARAM,
          "as many strides as sizes are needed");
  require(sizes.size() == 4, CUDNN_STATUS_NOT_SUPPORTED, "only four dimensions are emulated");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    require(sizes[i] > 0, CUDNN_STATUS_BAD_PARAM, "a size that is not positive");
    require(strides[i] > 0, CUDNN_STATUS_BAD_PARAM, "a stride that is not positive");
    tensor.sizes[i] = sizes[i];
    tensor.strides[i] = strides[i];
  }
  tensor.uid = node.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.alignment = node.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  tensor.is_virtual = node.values.find(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != node.values.end() &&
                      node.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  const auto size = static_cast<std::int64_t>(size_of(tensor.type));
  require(tensor.alignment > 0 && tensor.alignment % size == 0, CUDNN_STATUS_BAD_PARAM,
          "alignment to " + std::to_string(tensor.alignment) + " bytes for elements of " +
              std::to_string(size));
  return tensor;
}

Window window_of(const Node& node) {
  require(node.one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT,
          CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "sums in another type than f32");
  require(
      node.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION,
      CUDNN_STATUS_NOT_SUPPORTED, "mirrored weights are not emulated");
  require(node.one<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2,
          CUDNN_STATUS_NOT_SUPPORTED, "only two spatial dimensions are emulated");
  const auto read = [&](Name name, std::int64_t least, std::array<std::int64_t, 2>& to) {
    const auto numbers = node.all<std::int64_t>(name);
    require(numbers.size() == 2, CUDNN_STATUS_BAD_PARAM, label(name) + " needs two values");
    require(numbers[0] >= least && numbers[1] >= least, CUDNN_STATUS_BAD_PARAM,
            label(name) + " is too small");
    std::copy(numbers.begin(), numbers.end(), to.begin());
  };
  Window window;
  read(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, window.before);
  read(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0, window.after);
  read(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, window.dilation);
  read(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, window.stride);
  return window;
}

// Whether no two elements of a tensor share a memory location.
bool is_apart(const Tensor& tensor) {
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return tensor.strides[a] < tensor.strides[b]; });
  std::int64_t extent = 1;
  for (const std::size_t i : order) {
    if (tensor.sizes[i] == 1) continue;
    if (tensor.strides[i] < extent) return false;
    extent += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return true;
}

void check_sizes(const Convolution& p) {
  constexpr cudnnStatus_t kStatus = CUDNN_STATUS_BAD_PARAM;
  require(p.x.sizes[0] == p.y.sizes[0], kStatus, "x and y hold different numbers of images");
  require(p.weight.sizes[0] == p.y.sizes[1], kStatus, "weight and y differ in channels");
  require(p.x.sizes[1] % p.weight.sizes[1] == 0, kStatus, "groups do not divide x's channels");
  require(p.y.sizes[1] % p.groups() == 0, kStatus, "groups do not divide y's channels");
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Window& w = p.window;
    const std::int64_t room = p.x.sizes[2 + axis] + w.before[axis] + w.after[axis];
    const std::int64_t reach = w.dilation[axis] * (p.weight.sizes[2 + axis] - 1) + 1;
    require(room >= reach, kStatus, "the window is larger than the image");
    const std::int64_t expected = (room - reach) / w.stride[axis] + 1;
    require(p.y.sizes[2 + axis] == expected, kStatus,
            "y is " + std::to_string(p.y.sizes[2 + axis]) + " high or wide, not " +
                std::to_string(expected));
  }
  require(is_apart(p.result()), kStatus, "elements of the result share their places");
}

Convolution convolution_of(const Node& operation) {
  const Names& names = *find_names(operation.type);
  Convolution p;
  p.pass = static_cast<Pass>(&names - kNames);
  p.x = tensor_of(operation.part(names.x));
  p.weight = tensor_of(operation.part(names.weight));
  p.y = tensor_of(operation.part(names.y));
  p.window = window_of(operation.part(names.window));
  p.alpha = operation.one<float>(names.alpha);
  p.beta = operation.one<float>(names.beta);
  return p;
}

// The engines. What they refuse is chosen so that callers have to try the next one, the other
// heuristic, operands of another type, and doing without.
enum class EngineKind : std::uint8_t { kTensorCore, kWinograd, kPlain, kFallback, kCompiled };

struct Engine {
  EngineKind kind;
  std::int64_t workspace;
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::vector<cudnnBackendBehaviorNote_t> behavior{};
};

const std::vector<Engine>& engines() {
  static const auto* all =
      new std::vector<Engine>{{EngineKind::kTensorCore, 4096, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
                              {EngineKind::kWinograd, 65536, {CUDNN_NUMERICAL_NOTE_WINOGRAD}},
                              {EngineKind::kPlain, 0, {}},
                              {EngineKind::kFallback, 512, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}},
                              {EngineKind::kCompiled,
                               0,
                               {},
                               {CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API,
                                CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}}};
  return *all;
}

// More engines than a caller requests; those that must be compiled come first.
std::vector<std::int64_t> usual_engines() {
  std::vector<std::int64_t> all{4, 4, 0, 1, 4, 2};
  all.insert(all.end(), 100, 1);
  return all;
}

std::vector<std::int64_t> engines_of(cudnnBackendHeurMode_t mode) {
  switch (mode) {
    case CUDNN_HEUR_MODE_FALLBACK: return {3};
    case CUDNN_HEUR_MODE_INSTANT:
    case CUDNN_HEUR_MODE_A:
    case CUDNN_HEUR_MODE_B: return usual_engines();
    default: throw Refusal{CUDNN_STATUS_BAD_PARAM, "no such heuristic"};
  }
}

void check_support(const Engine& engine, const Convolution& p) {
  constexpr cudnnStatus_t kStatus = CUDNN_STATUS_NOT_SUPPORTED;
  const Tensor& other = p.pass == Pass::kGradWeight ? p.x : p.weight;
  require(other.type == p.type(), kStatus, "operands of different types");
  const bool is_mixed = p.result().type != p.type();
  require(!is_mixed || p.result().type == Element::kF32, kStatus,
          "a result of another 16-bit type");
  const bool is_dilated = p.window.dilation[0] > 1 || p.window.dilation[1] > 1;
  require(!is_dilated || p.groups() == 1, kStatus, "dilated windows of groups");
  require(p.pass != Pass::kGradWeight || p.type() == Element::kF32 || p.x.sizes[1] % 2 == 0,
          kStatus, "a weight gradient of 16-bit images that begin between words");
  if (p.hands_on_sums) {
    require(engine.kind == EngineKind::kCompiled, kStatus, "an operation behind the convolution");
    require(p.groups() == 1, kStatus, "groups with an operation behind them");
    return;
  }
  if (engine.kind == EngineKind::kFallback) {
    require(!is_mixed || p.pass == Pass::kForward, kStatus, "fallback: an f32 gradient of 16 bits");
    require(p.window.before == p.window.after, kStatus, "fallback: uneven padding");
    return;
  }
  require(!is_mixed, kStatus, "an f32 result of 16-bit operands");
  if (engine.kind == EngineKind::kTensorCore) {
    const std::int64_t unit = 16 / static_cast<std::int64_t>(size_of(p.type()));
    const std::int64_t group_o = p.weight.sizes[0] / p.groups();
    require(p.weight.sizes[1] % unit == 0 && group_o % unit == 0, kStatus,
            "tensor cores: channels that are no multiple of 16 bytes");
    for (const Tensor* tensor : {&p.x, &p.weight, &p.y}) {
      require(tensor->alignment % 16 == 0, kStatus, "tensor cores: alignment below 16 bytes");
      require(tensor->strides[1] == 1, kStatus, "tensor cores: channels are not innermost");
    }
  } else if (engine.kind == EngineKind::kWinograd) {
    const bool is_3x3 = p.weight.sizes[2] == 3 && p.weight.sizes[3] == 3;
    const bool is_dense = p.window.stride[0] == 1 && p.window.stride[1] == 1 && !is_dilated;
    require(is_3x3 && is_dense && p.groups() == 1, kStatus, "Winograd: another window than 3x3");
  }
}

Rounding rounding_of(const Engine& engine, const Convolution& p) {
  if (engine.kind == EngineKind::kWinograd) return Rounding::kCoarse;  // its use is noticed
  const bool is_tf32 = engine.kind == EngineKind::kTensorCore && p.type() == Element::kF32;
  return is_tf32 ? Rounding::kTf32 : Rounding::kNone;
}

// A convolution, perhaps followed by an identity that takes its sums.
Convolution convolution_of_graph(const Node& graph) {
  const auto& operations = graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts;
  require(find_names(operations[0]->type) != nullptr, CUDNN_STATUS_NOT_SUPPORTED,
          "a graph that does not begin with a convolution is not emulated");
  Convolution p = convolution_of(*operations[0]);
  if (operations.size() == 1) return p;
  const Node& tail = *operations[1];
  require(tail.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_STATUS_NOT_SUPPORTED,
          "two convolutions are not emulated");
  const Node& function = tail.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  require(function.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_IDENTITY,
          CUDNN_STATUS_NOT_SUPPORTED, "only the identity is emulated");
  require(function.one<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_FLOAT,
          CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "an identity in another type than f32");
  const Tensor sums = tensor_of(tail.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  const Tensor to = tensor_of(tail.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  require(sums.uid == p.result().uid && sums.uid != to.uid, CUDNN_STATUS_BAD_PARAM,
          "the operations do not follow each other");
  require(sums.is_virtual && sums.type == Element::kF32, CUDNN_STATUS_NOT_SUPPORTED,
          "sums between operations that lie in memory, or are not f32, are not emulated");
  require(sums.sizes == to.sizes, CUDNN_STATUS_BAD_PARAM, "the identity changes sizes");
  p.result() = to;
  p.hands_on_sums = true;
  return p;
}

// The engine and the convolution of a plan.
struct Planned {
  const Engine& engine;
  Convolution convolution;

  explicit Planned(const Node& plan) : Planned(plan, engine_of(plan)) {}

 private:
  static const Node& engine_of(const Node& plan) {
    return plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).part(CUDNN_ATTR_ENGINECFG_ENGINE);
  }
  Planned(const Node& /*plan*/, const Node& of)
      : engine(engines()[static_cast<std::size_t>(
            of.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX))]),
        convolution(convolution_of_graph(of.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH))) {}
};

void check_graph(const Node& graph) {
  const Convolution p = convolution_of_graph(graph);
  require(p.x.uid != p.weight.uid && p.x.uid != p.y.uid && p.weight.uid != p.y.uid,
          CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "tensors share a unique id");
  require(!p.x.is_virtual && !p.weight.is_virtual && !p.y.is_virtual, CUDNN_STATUS_BAD_PARAM,
          "a tensor that nobody makes or reads is not in memory");
}

void check_pack(const Node& pack) {
  const auto uids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  require(uids.size() == pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size(),
          CUDNN_STATUS_BAD_PARAM, "as many pointers as ids are needed");
  require(std::set<std::int64_t>(uids.begin(), uids.end()).size() == uids.size(),
          CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "an id comes twice");
}

void finalize(Node& node) {
  require(!node.is_final, CUDNN_STATUS_BAD_PARAM, "finalized before");
  for (const Rule& rule : rules()) {
    require(rule.of != node.type || rule.use != Use::kRequired ||
                node.values.find(rule.name) != node.values.end(),
            CUDNN_STATUS_BAD_PARAM, label(rule.name) + " is missing");
  }
  switch (node.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: tensor_of(node); break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: window_of(node); break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: check_graph(node); break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      engines_of(node.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
      break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: {
      const auto index = node.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      require(index >= 0 && index < std::ssize(engines()), CUDNN_STATUS_BAD_PARAM,
              "no such engine");
      break;
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Planned planned(node);
      check_support(planned.engine, planned.convolution);
      ++cudnn_watch().plans;
      if (!planned.engine.behavior.empty()) ++cudnn_watch().compiled;
      break;
    }
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: check_pack(node); break;
    default:
      if (find_names(node.type) != nullptr) check_sizes(convolution_of(node));
  }
  node.is_final = true;
}

// The destination of GetAttribute().
struct Request {
  std::int64_t room;
  std::int64_t* count;
  void* to;

  void give(std::span<const std::byte> bytes, std::size_t size) const {
    const auto available = static_cast<std::int64_t>(bytes.size() / size);
    const std::int64_t given = room == 0 ? available : std::min(room, available);
    if (count != nullptr) *count = available;  // whatever the capacity is
    if (room > 0 && given > 0)
      std::memcpy(to, bytes.data(), static_cast<std::size_t>(given) * size);
  }
  // The descriptor that the caller has created for result `i`.
  std::shared_ptr<Node> made(std::int64_t i, Type type) const {
    const auto node = nodes().find(static_cast<const cudnnBackendDescriptor_t*>(to)[i]);
    require(node->type == type, CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
            "another kind of descriptor for a result");
    require(!node->is_final, CUDNN_STATUS_BAD_PARAM, "a finalized descriptor for a result");
    return node;
  }
};

void get_results(const Node& heuristic, const Request& request) {
  const auto found = engines_of(heuristic.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
  const std::int64_t given =
      request.room == 0 ? std::ssize(found) : std::min(request.room, std::ssize(found));
  for (std::int64_t i = 0; request.room > 0 && i < given; ++i) {
    const auto config = request.made(i, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    const auto engine = std::make_shared<Node>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    put(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
        heuristic.values.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).parts.front());
    put(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, found[static_cast<std::size_t>(i)]);
    engine->is_final = true;
    put(*config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    config->is_final = true;
  }
  if (request.count != nullptr) *request.count = std::ssize(found);
}

void get(const Node& node, const Rule& rule, const Request& request) {
  require(node.is_final, CUDNN_STATUS_NOT_INITIALIZED, "asked before it is finalized");
  require(request.room >= 0 && (request.room == 0 || request.to != nullptr), CUDNN_STATUS_BAD_PARAM,
          "no room for values");
  switch (rule.name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return get_results(node, request);
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      if (request.count != nullptr) *request.count = 1;
      if (request.room == 0) return;
      const auto engine = request.made(0, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      *engine = node.part(CUDNN_ATTR_ENGINECFG_ENGINE);
      return;
    }
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const auto index = node.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      const auto& notes = engines()[static_cast<std::size_t>(index)].notes;
      return request.give(std::as_bytes(std::span(notes)), sizeof(notes[0]));
    }
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: {
      const auto index = node.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      const auto& notes = engines()[static_cast<std::size_t>(index)].behavior;
      return request.give(std::as_bytes(std::span(notes)), sizeof(notes[0]));
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: {
      const std::int64_t bytes = Planned(node).engine.workspace;
      return request.give(std::as_bytes(std::span(&bytes, 1)), sizeof(bytes));
    }
    default: break;
  }
  require(rule.type != CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_STATUS_NOT_SUPPORTED,
          "this part is not given out");
  request.give(node.values.at(rule.name).bytes, size_of(rule.type));
}

// The address that a variant pack gives to a tensor.
void* place_of(const Tensor& tensor, const Node& pack) {
  const auto uids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto found = std::find(uids.begin(), uids.end(), tensor.uid);
  const std::string name = "tensor " + std::to_string(tensor.uid);
  require(found != uids.end(), CUDNN_STATUS_BAD_PARAM, name + " is missing in the pack");
  void* place = pack.all<void*>(
      CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[static_cast<std::size_t>(found - uids.begin())];
  require(place != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, name + " is null");
  require(is_on_card(place), CUDNN_STATUS_BAD_PARAM, name + " is not on the card");
  require(is_aligned(place, static_cast<std::uint64_t>(tensor.alignment)),
          CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, name + " is less aligned than declared");
  return place;
}

// Observed on an H100 with cuDNN 9.19: engines that pass the sums of a weight gradient on do not
// refuse 16-bit channels that are not a multiple of eight, but give wrong sums.
bool gives_wrong_sums(const Convolution& p) {
  return p.hands_on_sums && p.pass == Pass::kGradWeight &&
         (p.x.sizes[1] % 8 != 0 || p.y.sizes[1] % 8 != 0);
}

void execute(cudnnHandle_t handle, const Node& plan, const Node& pack) {
  require(plan.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
              pack.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
          CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "not a plan and a pack");
  require(plan.is_final && pack.is_final, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
          "the plan or the pack is not finalized");
  const Planned planned(plan);
  const Convolution& p = planned.convolution;
  const bool is_f32 = p.type() == Element::kF32;
  require(is_f32 || !cudnn_watch().refuses_16_bits, CUDNN_STATUS_EXECUTION_FAILED,
          "a test wants it refused");
  ++(is_f32 ? cudnn_watch().runs_of_f32 : cudnn_watch().runs_of_16_bits);
  if (rounding_of(planned.engine, p) == Rounding::kTf32) ++cudnn_watch().runs_in_tf32;
  if (p.hands_on_sums) ++cudnn_watch().runs_that_hand_on_sums;
  const ConvolutionRun::Places places{place_of(p.x, pack), place_of(p.weight, pack),
                                      place_of(p.y, pack)};
  const std::array<ByteRange, 3> ranges{p.x.range(places.x), p.weight.range(places.weight),
                                        p.y.range(places.y)};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    require(!ranges[i].overlaps(ranges[(i + 1) % ranges.size()]), CUDNN_STATUS_BAD_PARAM,
            "tensors overlap");
  }
  void* workspace = nullptr;
  const auto bytes = static_cast<std::size_t>(planned.engine.workspace);
  if (bytes > 0) {
    const bool has_one = pack.values.find(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) != pack.values.end();
    if (has_one) workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    require(workspace != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
    require(is_on_card(workspace), CUDNN_STATUS_BAD_PARAM, "the workspace is not on the card");
    for (const ByteRange& range : ranges) {
      require(!range.overlaps({workspace, bytes}), CUDNN_STATUS_BAD_PARAM,
              "the workspace overlaps a tensor");
    }
  }
  const ConvolutionRun run(p, rounding_of(planned.engine, p), places);
  const bool is_wrong = gives_wrong_sums(p);
  const cudaError_t queued = queue(handle->stream, [run, workspace, bytes, is_wrong, places] {
    spoil(workspace, bytes);
    run.run();
    if (is_wrong) spoil(places.weight, sizeof(float));
  });
  require(queued == cudaSuccess, CUDNN_STATUS_EXECUTION_FAILED, "the stream takes no work");
}

bool is_emulated(Type type) {
  return std::any_of(rules().begin(), rules().end(),
                     [&](const Rule& rule) { return rule.of == type; });
}

}  // namespace

CudnnWatch& cudnn_watch() {
  static CudnnWatch watch;
  return watch;
}

}  // namespace mezzo::emulated_card

using namespace mezzo::emulated_card;  // NOLINT(google-build-using-namespace): the card's own calls

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return guarded(__func__, [&] {
    require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no room for the handle");
    *handle = new cudnnContext;
    cudnn_handles().add(*handle);
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return guarded(__func__, [&] {
    require_handle(handle);
    cudnn_handles().remove(handle);
    delete handle;
  });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return guarded(__func__, [&] {
    require_handle(handle);
    handle->stream = stream;
  });
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (CUDNN_STATUS_CATEGORY(status)) {
    case 0: return "success";
    case 1000: return "not initialized";
    case CUDNN_STATUS_BAD_PARAM: return "bad parameter";
    case CUDNN_STATUS_NOT_SUPPORTED: return "not supported";
    case CUDNN_STATUS_EXECUTION_FAILED: return "execution failed";
    default: return "another failure";
  }
}

void cudnnGetLastErrorString(char* message, std::size_t room) {
  const std::size_t length = std::min(last_error.size(), room - 1);
  last_error.copy(message, length);
  message[length] = '\0';
  last_error.clear();
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return guarded(__func__, [&] {
    require(descriptor != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no room for it");
    require(is_emulated(type), CUDNN_STATUS_NOT_SUPPORTED, "a descriptor that is not emulated");
    const auto node = std::make_shared<Node>();
    node->type = type;
    nodes().add(node);
    *descriptor = node.get();
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return guarded(__func__, [&] {
    require(descriptor != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    require(nodes().remove(descriptor), CUDNN_STATUS_BAD_PARAM, "destroyed before, or not created");
  });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* data) {
  return guarded(__func__, [&] {
    const auto node = nodes().find(descriptor);
    set(*node, rule_of(*node, name, type), count, data);
  });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t room,
                                       std::int64_t* count, void* to) {
  return guarded(__func__, [&] {
    const auto node = nodes().find(descriptor);
    get(*node, rule_of(*node, name, type), {room, count, to});
  });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return guarded(__func__, [&] { finalize(*nodes().find(descriptor)); });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return guarded(__func__, [&] {
    require_handle(handle);
    execute(handle, *nodes().find(plan), *nodes().find(pack));
  });
}
