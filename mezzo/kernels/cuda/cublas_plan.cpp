#include "mezzo/kernels/cuda/cublas_plan.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/cublaslt_library.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr std::size_t kWorkspace = 32UL << 20U;  // NVIDIA's recommendation for Hopper

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail<DeviceError>("cuda", call, " failed: ", cublaslt_library().cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    case DType::kE4m3: return CUDA_R_8F_E4M3;
    case DType::kE5m2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
  }
}

// Deleters of cuBLASLt's descriptions.
struct Destroy {
  void operator()(cublasLtMatmulDesc_t d) const { cublaslt_library().cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t d) const {
    cublaslt_library().cublasLtMatrixLayoutDestroy(d);
  }
  void operator()(cublasLtMatmulPreference_t d) const {
    cublaslt_library().cublasLtMatmulPreferenceDestroy(d);
  }
};
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroy>;
using Layout = Owned<cublasLtMatrixLayout_t>;

Layout make_layout(DType dtype, std::int64_t rows, std::int64_t columns, const Product& p,
                   std::int64_t step) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublaslt_library().cublasLtMatrixLayoutCreate(&raw, type_of(dtype),
                                                      static_cast<std::uint64_t>(rows),
                                                      static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  Layout layout(raw);
  const auto count = static_cast<std::int32_t>(p.batch);
  check(cublaslt_library().cublasLtMatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                            &count, sizeof(count)),
        "setting the batch");
  check(cublaslt_library().cublasLtMatrixLayoutSetAttribute(
            raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
        "setting the batch's stride");
  return layout;
}

DType dtype_of_b(const Product& p) { return p.eight_bits ? p.eight_bits->dtype_b : p.dtype; }

// A place that stands in for a pointer while an algorithm is chosen, which depends on alignments.
// It has exactly this alignment, 16 at most.
const void* example_place(std::size_t alignment) {
  alignas(32) static constexpr char kPlaces[32] = {};
  return kPlaces + alignment;
}

#if CUBLAS_VERSION >= 120800
// cuBLASLt's name for scales of lines or blocks; nothing if the header has none.
std::optional<cublasLtMatmulMatrixScale_t> scale_mode(ScaleBy by) {
  switch (by) {
    case ScaleBy::kTensor: return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    case ScaleBy::kBlock: return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
#if CUBLAS_VERSION >= 120900
    case ScaleBy::kLine: return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
#endif
    default: return std::nullopt;
  }
}
#endif

}  // namespace

// cuBLASLt stores matrices by columns, and a row-major matrix is its transpose stored by columns.
// So out^T = b^T a^T, and b comes first.
class CublasPlan {
 public:
  explicit CublasPlan(const Product& p)
      : product(p),
        first(p.transpose_b ? make_layout(dtype_of_b(p), p.k, p.n, p, p.b_step)
                            : make_layout(dtype_of_b(p), p.n, p.k, p, p.b_step)),
        second(p.transpose_a ? make_layout(p.dtype, p.m, p.k, p, p.a_step)
                             : make_layout(p.dtype, p.k, p.m, p, p.a_step)),
        result(make_layout(p.result, p.n, p.m, p, p.out_step)) {
    // Sums are f32 for every dtype: a 16-bit sum of n terms is off by up to n / 256 of one term
    // (bf16).
    cublasLtMatmulDesc_t raw = nullptr;
    const cublasComputeType_t compute =
        p.tf32 && p.dtype == DType::kF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublaslt_library().cublasLtMatmulDescCreate(&raw, compute, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    operation.reset(raw);
    const cublasOperation_t of_b = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_a = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, of_b);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of_a);
    if (p.has_bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(bias_dtype(p)));
      // run_plan() passes the real pointer.
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
          example_place(std::max<std::size_t>(p.alignment, size_of(bias_dtype(p)))));
    }
    if (p.eight_bits) can_scale = describe_scales(p.eight_bits->by);
  }

  // Returns false if this cuBLASLt knows no such scales.
  bool describe_scales(ScaleBy by) const {
    // Off, as it is by default. Hopper's Tensor Cores add up products of eight bits in 14 bits, and
    // with fast accumulation a sum stays there to its end: of 4,096 random terms it was off by
    // nearly 2 % (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", 3.3.2). Without it the sums of
    // a few terms each are added up in f32.
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{0});
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, example_place(16));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, example_place(16));
    if (by == ScaleBy::kTensor) return true;  // older versions know nothing else
#if CUBLAS_VERSION >= 120800
    // The library may be older than its header, and refuse a mode that it does not know.
    const auto mode = scale_mode(by);
    return mode.has_value() && try_to_set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, *mode) &&
           try_to_set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, *mode);
#else
    return false;
#endif
  }

  template <class T>
  cublasStatus_t status_of_set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    return cublaslt_library().cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value,
                                                             sizeof(value));
  }
  template <class T>
  bool try_to_set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    return status_of_set(attribute, value) == CUBLAS_STATUS_SUCCESS;
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check(status_of_set(attribute, value), "cublasLtMatmulDescSetAttribute");
  }

  // Requests the algorithm that cuBLASLt expects to be fastest.
  void choose(cublasLtHandle_t handle) {
    if (!can_scale) return;
    cublasLtMatmulPreference_t raw = nullptr;
    check(cublaslt_library().cublasLtMatmulPreferenceCreate(&raw),
          "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreference_t> preference(raw);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublaslt_library().cublasLtMatmulPreferenceSetAttribute(raw, attribute, &value,
                                                                    sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Partial sums are added in f32. A reduction in the result's 16 bits would round each part, and
    // the order of one in place varies.
    const std::uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    // `alignment` is that of all pointers. f32 pointers have at least 4 bytes, even beside 16-bit
    // ones with 2.
    const auto alignment_for = [&](DType dtype) {
      return std::max(static_cast<std::uint32_t>(product.alignment),
                      static_cast<std::uint32_t>(size_of(dtype)));
    };
    const std::uint32_t of_operands = alignment_for(product.dtype);
    const std::uint32_t of_result = alignment_for(product.result);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_operands);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_operands);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_result);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_result);
    int found = 0;
    const cublasStatus_t status = cublaslt_library().cublasLtMatmulAlgoGetHeuristic(
        handle, operation.get(), first.get(), second.get(), result.get(), result.get(), raw, 1,
        &chosen, &found);
    has_algorithm =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && chosen.state == CUBLAS_STATUS_SUCCESS;
  }

  Product product;
  Owned<cublasLtMatmulDesc_t> operation;
  Layout first, second, result;
  cublasLtMatmulHeuristicResult_t chosen{};
  bool can_scale = true;
  bool has_algorithm = false;
};

const CublasPlan* find_plan(Context& context, const Product& product) {
  // Few: a network has dozens of shapes. Per thread, like the handle, so that no thread waits.
  struct Entry {
    Device device;
    std::unique_ptr<CublasPlan> plan;
  };
  thread_local std::vector<Entry> plans;
  for (const Entry& entry : plans) {
    if (entry.device == context.device() && entry.plan->product == product) {
      return entry.plan->has_algorithm ? entry.plan.get() : nullptr;
    }
  }
  const OnDevice on(context.device());
  auto plan = std::make_unique<CublasPlan>(product);
  plan->choose(context.cublas());
  plans.push_back({context.device(), std::move(plan)});
  const CublasPlan* made = plans.back().plan.get();
  return made->has_algorithm ? made : nullptr;
}

const CublasPlan& plan_again(Context& context, const Product& product, const char* op) {
  const CublasPlan* plan = find_plan(context, product);
  if (plan == nullptr) {
    fail<DeviceError>(op, "cuBLASLt no longer has an algorithm for a product of ", product.m, " x ",
                      product.k, " and ", product.k, " x ", product.n,
                      ". Pass tensors with the same layout as before");
  }
  return *plan;
}

void run_plan(Context& context, const CublasPlan& plan, const ProductData& data) {
  const OnDevice on(context.device());
  if (plan.product.has_bias) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data.bias);
  if (plan.product.eight_bits) {
    plan.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, data.scales_b);  // b comes first
    plan.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, data.scales_a);
  }
  const Scratch workspace(plan.chosen.workspaceSize, context.device());
  const float one = 1;
  const float zero = 0;
  check(cublaslt_library().cublasLtMatmul(
            context.cublas(), plan.operation.get(), &one, data.b, plan.first.get(), data.a,
            plan.second.get(), &zero, data.out, plan.result.get(), data.out, plan.result.get(),
            &plan.chosen.algo, workspace.as(), workspace.bytes(), context.stream()),
        "cublasLtMatmul");
}

}  // namespace mezzo::kernels::cuda
