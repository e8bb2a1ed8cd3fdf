// cuBLASLt on the emulated card: the functions that mezzo calls, as strict as the documentation.
#include <array>

#include <cublasLt.h>

#include "tests/emulated_card/cublaslt_call.h"
#include "tests/emulated_card/cublaslt_problem.h"
#include "tests/emulated_card/elements.h"

struct cublasLtContext {};

namespace mezzo::emulated_card {
namespace {

Register& handles() {
  static auto* all = new Register;
  return *all;
}

Register& descriptions() {
  static auto* all = new Register;
  return *all;
}

cublasStatus_t refuse(const char* call, cublasStatus_t status, const std::string& why) {
  report_refusal(call, why,
                 status == CUBLAS_STATUS_INVALID_VALUE || status == CUBLAS_STATUS_NOT_INITIALIZED);
  return status;
}

// The object behind a descriptor, or null if it does not exist any more.
template <class T, class Opaque>
T* find(Opaque* description) {
  return descriptions().has(description) ? static_cast<T*>(description) : nullptr;
}

template <class T, class Opaque>
cublasStatus_t create(Opaque** to, const char* call, const T& value) {
  if (to == nullptr) return refuse(call, CUBLAS_STATUS_INVALID_VALUE, "no room for the result");
  auto* made = new T(value);
  descriptions().add(static_cast<Opaque*>(made));
  *to = made;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Opaque>
cublasStatus_t destroy(Opaque* description, const char* call) {
  if (description == nullptr) return CUBLAS_STATUS_SUCCESS;
  if (!descriptions().remove(description)) {
    return refuse(call, CUBLAS_STATUS_INVALID_VALUE, "destroyed before, or never created");
  }
  delete static_cast<T*>(description);
  return CUBLAS_STATUS_SUCCESS;
}

// A value that is written to an attribute.
struct Value {
  const char* call;
  int attribute;
  const void* data;
  std::size_t bytes;

  template <class T>
  cublasStatus_t give(T& place) const {
    if (data == nullptr) return refuse(call, CUBLAS_STATUS_INVALID_VALUE, "no value");
    if (bytes != sizeof(place)) {
      return refuse(call, CUBLAS_STATUS_INVALID_VALUE,
                    "attribute " + std::to_string(attribute) + " has " +
                        std::to_string(sizeof(place)) + " bytes, not " + std::to_string(bytes));
    }
    std::memcpy(&place, data, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  cublasStatus_t no_such_attribute() const {
    return refuse(call, CUBLAS_STATUS_INVALID_VALUE,
                  "attribute " + std::to_string(attribute) + " is unknown or not emulated");
  }
  cublasStatus_t no_such_description() const {
    return refuse(call, CUBLAS_STATUS_INVALID_VALUE, "the description does not exist");
  }
};

struct Descriptions {
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, c, d;
};

cublasStatus_t read(const char* call, const Descriptions& from, Problem& problem) {
  const auto* operation = find<Operation>(from.operation);
  const auto* a = find<Layout>(from.a);
  const auto* b = find<Layout>(from.b);
  const auto* c = find<Layout>(from.c);
  const auto* d = find<Layout>(from.d);
  if (!operation || !a || !b || !c || !d) {
    return refuse(call, CUBLAS_STATUS_INVALID_VALUE, "a description does not exist");
  }
  problem.operation = *operation;
  problem.a = *a;
  problem.b = *b;
  problem.c = *c;
  problem.d = *d;
  for (const Layout* layout : {a, b, c, d}) {
    const std::string fault = fault_of(*layout);
    if (!fault.empty()) return refuse(call, CUBLAS_STATUS_INVALID_VALUE, fault);
  }
  if (const std::string fault = fault_of_sizes(problem); !fault.empty()) {
    return refuse(call, CUBLAS_STATUS_INVALID_VALUE, fault);
  }
  if (const std::string why = unsupported(problem); !why.empty()) {
    return refuse(call, CUBLAS_STATUS_NOT_SUPPORTED, why);
  }
  return CUBLAS_STATUS_SUCCESS;
}

// The fault in the memory of a call; empty if there is none.
std::string fault_of_places(const Call& call) {
  const Problem& p = call.problem;
  const std::array<const void*, 5> places{call.a, call.b, call.c, call.d, p.operation.bias};
  for (std::size_t i = 0; i < (p.has_bias() ? 5 : 4); ++i) {
    const std::string name = kPlaceNames[i];
    if (i == 2 && call.beta == 0 && places[i] == nullptr) continue;
    if (places[i] == nullptr) return name + " is null";
    if (!is_on_card(places[i])) return name + " is not on the card";
    if (!is_aligned(places[i], call.algorithm.alignments[i])) {
      return name + " is not aligned to " + std::to_string(call.algorithm.alignments[i]) +
             " bytes, which the algorithm was chosen for";
    }
  }
  for (const void* scale : {p.operation.scale_a, p.operation.scale_b}) {
    if (scale != nullptr && !is_on_card(scale)) return "a scale is not on the card";
    constexpr std::uint64_t kVector = 16;
    const std::uint64_t wanted = p.operation.scale_mode_a == kOneScale ? sizeof(float) : kVector;
    if (!is_aligned(scale, wanted)) return "a scale that is not aligned";
  }
  if (p.operation.scale_mode_a != kOneScale && !(p.operation.scale_a && p.operation.scale_b)) {
    return "a vector of scales is null";
  }
  const ByteRange result = range_of(p.d, call.d);
  if (result.overlaps(range_of(p.a, call.a)) || result.overlaps(range_of(p.b, call.b))) {
    return "D overlaps an operand";
  }
  const bool same_layout = p.c.stride == p.d.stride && p.c.step == p.d.step;
  if (call.beta != 0 && result.overlaps(range_of(p.c, call.c)) &&
      (call.c != call.d || !same_layout)) {
    return "D overlaps C without being it";
  }
  if (call.algorithm.workspace > 0) {
    constexpr std::uint64_t kWorkspaceAlignment = 16;
    if (call.workspace == nullptr || !is_on_card(call.workspace)) return "no workspace on the card";
    if (!is_aligned(call.workspace, kWorkspaceAlignment)) return "a workspace that is not aligned";
    const ByteRange work{call.workspace, static_cast<std::size_t>(call.algorithm.workspace)};
    for (const ByteRange& tensor : {range_of(p.a, call.a), range_of(p.b, call.b), result}) {
      if (work.overlaps(tensor)) return "the workspace overlaps a matrix";
    }
  }
  return {};
}

// The algorithm of a call. If it is unspecified, one is chosen for the given problem.
cublasStatus_t read(const char* call, const cublasLtMatmulAlgo_t* from, const Call& places,
                    Algorithm& algorithm) {
  if (from == nullptr) {
    Preference preference;
    preference.alignments = {alignment_of(places.a), alignment_of(places.b), alignment_of(places.c),
                             alignment_of(places.d)};
    algorithm = choose(places.problem, preference);
    return CUBLAS_STATUS_SUCCESS;
  }
  std::memcpy(static_cast<void*>(&algorithm), from, sizeof(algorithm));
  if (algorithm.mark != Algorithm::kMark) {
    return refuse(call, CUBLAS_STATUS_INVALID_VALUE, "the algorithm is none of ours");
  }
  if (algorithm.configuration != configuration_of(places.problem)) {
    return refuse(call, CUBLAS_STATUS_INVALID_VALUE, "the algorithm is one for other matrices");
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace mezzo::emulated_card

using namespace mezzo::emulated_card;  // NOLINT(google-build-using-namespace): the card's own calls

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, "no room for it");
  *handle = new cublasLtContext;
  handles().add(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (!handles().remove(handle)) {
    return refuse(__func__, CUBLAS_STATUS_NOT_INITIALIZED, "no such handle");
  }
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not initialized";
    case CUBLAS_STATUS_INVALID_VALUE: return "invalid value";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "execution failed";
    default: return "another failure";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* to, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Operation operation;
  operation.compute = compute;
  operation.scale = scale;
  return create(to, __func__, operation);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy<Operation>(description, __func__);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, std::size_t bytes) {
  const Value value{__func__, attribute, data, bytes};
  auto* operation = find<Operation>(description);
  if (operation == nullptr) return value.no_such_description();
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return value.give(operation->compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return value.give(operation->scale);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return value.give(operation->pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA: return value.give(operation->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return value.give(operation->transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC: return value.give(operation->transpose_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return value.give(operation->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return value.give(operation->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return value.give(operation->bias_step);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return value.give(operation->bias_type);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return value.give(operation->scale_a);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return value.give(operation->scale_b);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return value.give(operation->fast_sums);
#if CUBLAS_VERSION >= 120800
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return value.give(operation->scale_mode_a);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return value.give(operation->scale_mode_b);
#endif
    default: return value.no_such_attribute();
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* to, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  Layout layout;
  layout.type = type;
  layout.rows = rows;
  layout.columns = columns;
  layout.stride = stride;
  return create(to, __func__, layout);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t description) {
  return destroy<Layout>(description, __func__);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t description,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* data, std::size_t bytes) {
  const Value value{__func__, attribute, data, bytes};
  auto* layout = find<Layout>(description);
  if (layout == nullptr) return value.no_such_description();
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return value.give(layout->type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return value.give(layout->order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return value.give(layout->rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return value.give(layout->columns);
    case CUBLASLT_MATRIX_LAYOUT_LD: return value.give(layout->stride);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return value.give(layout->batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return value.give(layout->step);
    default: return value.no_such_attribute();
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* to) {
  return create(to, __func__, Preference());
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t description) {
  return destroy<Preference>(description, __func__);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t description,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* data, std::size_t bytes) {
  const Value value{__func__, attribute, data, bytes};
  auto* preference = find<Preference>(description);
  if (preference == nullptr) return value.no_such_description();
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return value.give(preference->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return value.give(preference->reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return value.give(preference->alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return value.give(preference->alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return value.give(preference->alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return value.give(preference->alignments[3]);
    default: return value.no_such_attribute();
  }
}

// NOLINTNEXTLINE(readability-function-size): as many parameters as it has
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preferences, int asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  if (!handles().has(handle)) {
    return refuse(__func__, CUBLAS_STATUS_NOT_INITIALIZED, "no such handle");
  }
  if (asked < 1 || results == nullptr || count == nullptr) {
    return refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, "no room for algorithms");
  }
  *count = 0;
  const auto* preference = find<Preference>(preferences);
  if (preference == nullptr) {
    return refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, "the preference does not exist");
  }
  Problem problem;
  const cublasStatus_t status = read(__func__, {operation, a, b, c, d}, problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm algorithm = choose(problem, *preference);
  if (const std::string fault = fault_of(algorithm, problem); !fault.empty()) {
    return refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, fault);
  }
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// NOLINTNEXTLINE(readability-function-size): as many parameters as it has
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                              const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (!handles().has(handle)) {
    return refuse(__func__, CUBLAS_STATUS_NOT_INITIALIZED, "no such handle");
  }
  if (alpha == nullptr || beta == nullptr) {
    return refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, "no factors");
  }
  Call call;
  const Descriptions from{operation, layout_a, layout_b, layout_c, layout_d};
  cublasStatus_t status = read(__func__, from, call.problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  call.a = a;
  call.b = b;
  call.c = c;
  call.d = d;
  call.workspace = workspace;
  // alpha and beta belong to the host, so the call copies them before it returns.
  std::memcpy(&call.alpha, alpha, sizeof(call.alpha));
  std::memcpy(&call.beta, beta, sizeof(call.beta));
  status = read(__func__, algo, call, call.algorithm);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (workspace_bytes < call.algorithm.workspace) {
    return refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, "too small a workspace");
  }
  if (const std::string fault = fault_of_places(call); !fault.empty()) {
    return refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, fault);
  }
  if (queue(stream, [call] { call.run(); }) != cudaSuccess) {
    return refuse(__func__, CUBLAS_STATUS_EXECUTION_FAILED, "the stream takes no work");
  }
  return CUBLAS_STATUS_SUCCESS;
}
