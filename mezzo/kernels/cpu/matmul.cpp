// The kernels of matmul and linear, and those that call oneDNN.
#include <algorithm>
#include <utility>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/onednn/onednn.h"
#include "mezzo/ops/matmul_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

using dnnl::memory;
using onednn::Desc;
using onednn::Primitive;

// A batch of matrices as oneDNN sees it: [..., rows, columns] with any strides.
struct Matrices {
  Shape dims;
  Shape strides;
};

// out = a b + bias; all tensors have the same rank.
struct ProductProblem {
  Matrices a, b, out;
  DType dtype = DType::kF32;
  DType result = DType::kF32;
  bool has_bias = false;

  onednn::Key key(bool packs_b) const {
    onednn::Key key(0x6d6174);
    key.add(static_cast<std::int64_t>(dtype) << 16 | static_cast<std::int64_t>(result) << 8 |
            static_cast<std::int64_t>(has_bias) << 1 | static_cast<std::int64_t>(packs_b));
    for (const Matrices* m : {&a, &b, &out}) {
      key.add(m->dims);
      for (const std::int64_t stride : m->strides) key.add(stride);
    }
    return key;
  }
};

// True if oneDNN accepts the strides of the axes. Axes of size 1 do not count: see matrices().
bool has_nested_axes(const Tensor& tensor) {
  if (tensor.rank() <= 2 || tensor.is_dense(Format::kContiguous)) return true;
  Shape dims;
  Strides strides;
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.shape()[i] == 1) continue;
    dims.push_back(tensor.shape()[i]);
    strides.push_back(tensor.strides()[i]);
  }
  return dims.empty() || !onednn::describe_if_taken(dims, DType::kF32, strides).is_zero();
}

// True if rows or columns of the matrices are contiguous, as oneDNN wants them.
bool has_plain_matrices(const Tensor& tensor) {
  const Strides& s = tensor.strides();
  const Shape& shape = tensor.shape();
  const std::size_t last = tensor.rank() - 1;
  const auto is_plain = [&](std::size_t inner, std::size_t outer) {
    return (s[inner] == 1 || shape[inner] == 1) && s[outer] >= shape[inner];
  };
  return (is_plain(last, last - 1) || is_plain(last - 1, last)) && has_nested_axes(tensor);
}

// The strides of the tensor itself, or of the dense copy that will be read instead.
Strides strides_read(const Tensor& tensor) {
  return has_plain_matrices(tensor) ? tensor.strides()
                                    : strides_for(tensor.shape(), Format::kContiguous);
}

Tensor with_plain_matrices(const Tensor& tensor) {
  return has_plain_matrices(tensor) ? tensor : dense(tensor, Format::kContiguous);
}

// The tensor as matrices of `rank` dimensions, transposed if asked; leading axes are added as
// needed. The strides of axes of size 1 mean nothing and are replaced by those of a dense tensor.
Matrices matrices(const Tensor& tensor, bool transposed, std::size_t rank) {
  Matrices m;
  const std::size_t extra = rank - tensor.rank();
  const Strides strides = strides_read(tensor);
  for (std::size_t i = 0; i < rank; ++i) {
    m.dims.push_back(i < extra ? 1 : tensor.shape()[i - extra]);
    m.strides.push_back(i < extra ? 0 : strides[i - extra]);
  }
  std::int64_t dense = 1;
  for (std::size_t i = rank; i-- > 0;) {
    if (m.dims[i] == 1) m.strides[i] = dense;
    dense = std::max(dense, m.strides[i] * m.dims[i]);
  }
  if (transposed) {
    std::swap(m.dims[rank - 2], m.dims[rank - 1]);
    std::swap(m.strides[rank - 2], m.strides[rank - 1]);
  }
  return m;
}

void merge_axis(Matrices& m, std::size_t axis) {
  m.dims[axis] *= m.dims[axis - 1];
  m.dims.erase(axis - 1);
  m.strides.erase(axis - 1);
}

bool continues(const Matrices& m, std::size_t axis) {
  return m.strides[axis - 1] == m.strides[axis] * m.dims[axis];
}

// Merges leading axes if the memory layout allows it: oneDNN's best kernels handle few dimensions.
// If all matrices of a share one b, their rows make one tall matrix.
void merge_axes(ProductProblem& p) {
  for (std::size_t axis = p.a.dims.rank() - 3; p.a.dims.rank() > 3 && axis > 0; --axis) {
    const bool same_a =
        p.a.dims[axis] == p.out.dims[axis] && p.a.dims[axis - 1] == p.out.dims[axis - 1];
    const bool same_b =
        p.b.dims[axis] == p.out.dims[axis] && p.b.dims[axis - 1] == p.out.dims[axis - 1];
    const bool one_b = p.b.dims[axis] == 1 && p.b.dims[axis - 1] == 1;
    if (same_a && continues(p.a, axis) && continues(p.out, axis) &&
        (one_b || (same_b && continues(p.b, axis)))) {
      for (Matrices* m : {&p.a, &p.b, &p.out}) merge_axis(*m, axis);
    }
  }
  if (p.a.dims.rank() == 3 && p.b.dims[0] == 1 && p.a.dims[0] == p.out.dims[0] &&
      (p.a.dims[0] == 1 || (continues(p.a, 1) && continues(p.out, 1)))) {
    for (Matrices* m : {&p.a, &p.b, &p.out}) merge_axis(*m, 1);
    // A single column of a transposed a has the stride of one matrix's rows, too small for all of
    // them.
    if (p.a.dims[1] == 1) p.a.strides[1] = 1;
  }
}

// One call: its operands, and how they are read.
struct Call {
  const Tensor& a;
  const Tensor& b;
  ProductProblem problem;
  bool packs_b = false;
  bool reads_rows = false;  // a is one row-major block
};

// True for a part of a larger matrix.
bool has_gaps(const Matrices& m) {
  const std::size_t outer = m.strides[1] == 1 ? 0 : 1;
  return m.dims[outer] > 1 && m.strides[outer] != m.dims[1 - outer];
}

// Packing b costs more than it saves for one small product. It pays for tall operands, and for
// weights that are read again before they change, as in inference. (Measured for 128 x 784 x 512 in
// f32: 615 us from plain memory, 588 us packed, and 116 us for packing.) With gaps in an operand,
// and without AVX-512, oneDNN's kernel sums in another order if b is packed. The second of two
// calls would then give other bits than the first.
bool packs(const Tensor& b, const ProductProblem& p) {
  constexpr std::int64_t kTall = 1024;
  if (p.b.dims.rank() != 2) return false;
  const bool has_same_bits = cpu_features().avx512 && !has_gaps(p.a) && !has_gaps(p.b);
  return onednn::is_worth_keeping(b) &&
         (p.a.dims[0] >= kTall ||
          (has_same_bits && onednn::is_read_again(b, p.b.dims, p.b.strides)));
}

Call make_call(const Tensor& a, const Tensor& b, const Tensor& out, const MatmulAttrs& attrs) {
  Call call{a, b, {}};
  ProductProblem& p = call.problem;
  const std::size_t rank = std::max<std::size_t>(out.rank(), 3);
  p.a = matrices(a, attrs.transpose_a, rank);
  p.b = matrices(b, attrs.transpose_b, rank);
  p.out = matrices(out, false, rank);
  p.dtype = a.dtype();
  p.result = out.dtype();
  merge_axes(p);
  call.packs_b = packs(b, p);
  return call;
}

Call matmul_call(const KernelArgs& args) {
  Call call = make_call(args.input(0), args.input(1), args.output(), args.attrs<MatmulAttrs>());
  call.problem.has_bias = args.has(2);
  return call;
}

// x [..., in] as rows, times the transposed weight.
Call linear_call(const KernelArgs& args) {
  const Tensor& weight = args.input(1);
  const std::int64_t in = weight.shape()[1];
  const std::int64_t out = weight.shape()[0];
  const std::int64_t rows = args.input(0).numel() / in;
  Call call{args.input(0), weight, {}, false, /*reads_rows=*/true};
  call.problem = {{{rows, in}, {in, 1}}, matrices(weight, true, 2), {{rows, out}, {out, 1}},
                  weight.dtype(),        args.output().dtype(),     args.has(2)};
  return call;
}

Desc bias_desc(const ProductProblem& p) {
  Shape dims = Shape::filled(p.out.dims.rank(), 1);
  dims.back() = p.out.dims.back();
  return onednn::describe(dims, DType::kF32, Shape::filled(dims.rank(), 1));
}

Primitive make(const Call& call) {
  const ProductProblem& p = call.problem;
  const Desc a = onednn::describe(p.a.dims, p.dtype, p.a.strides);
  const Desc b = call.packs_b ? Desc(memory::dims(p.b.dims.begin(), p.b.dims.end()),
                                     onednn::type_of(p.dtype), memory::format_tag::any)
                              : onednn::describe(p.b.dims, p.dtype, p.b.strides);
  const Desc out = onednn::describe(p.out.dims, p.result, p.out.strides);
  const auto described = [](const auto&... operands) {
    return onednn::describe_primitive<dnnl::matmul>(onednn::engine(), onednn::attributes(),
                                                    operands...);
  };
  const auto pd = p.has_bias ? described(a, b, bias_desc(p), out) : described(a, b, out);
  if (!pd) return {};
  return {dnnl::matmul(pd), pd.weights_desc(), pd.scratchpad_desc()};
}

std::shared_ptr<const Primitive> find(const Call& call) {
  return onednn::find_or_make(call.problem.key(call.packs_b), [&] { return make(call); });
}

void run(const char* op, const KernelArgs& args, Call (*as_call)(const KernelArgs&)) {
  onednn::guarded(op, args, [&] {
    const Call call = as_call(args);
    const ProductProblem& p = call.problem;
    const auto primitive = find(call);
    const Tensor left =
        call.reads_rows ? dense(call.a, Format::kContiguous) : with_plain_matrices(call.a);
    const Tensor right = with_plain_matrices(call.b);
    const onednn::Packed b = onednn::packed(right, p.b.dims, p.b.strides, primitive->weights);
    const memory a = onednn::memory_of(left, onednn::describe(p.a.dims, p.dtype, p.a.strides));
    const memory out =
        onednn::memory_of(args.output(), onednn::describe(p.out.dims, p.result, p.out.strides));
    if (!call.packs_b) onednn::note_read(call.b, p.b.dims, p.b.strides);
    if (!p.has_bias) {
      onednn::execute(*primitive,
                      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b.memory}, {DNNL_ARG_DST, out}});
      return;
    }
    const Tensor bias = dense(onednn::as_f32(args.input(2)), Format::kContiguous);
    onednn::execute(*primitive, {{DNNL_ARG_SRC, a},
                                 {DNNL_ARG_WEIGHTS, b.memory},
                                 {DNNL_ARG_BIAS, onednn::memory_of(bias, bias_desc(p))},
                                 {DNNL_ARG_DST, out}});
  });
}

void run_matmul(const KernelArgs& args) { run("matmul", args, matmul_call); }
void run_linear(const KernelArgs& args) { run("linear", args, linear_call); }

// Observed in oneDNN 2.6.3 with AMX: some bf16 products whose sums have 32 n - 1 terms load tiles
// of invalid sizes, which ends the program.
bool ends_program(const ProductProblem& p) {
  return p.dtype == DType::kBf16 && cpu_features().amx_bf16 && p.a.dims.back() % 32 == 31;
}

template <Call (*kAsCall)(const KernelArgs&)>
Support supports(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  const Call call = kAsCall(args);
  if (ends_program(call.problem)) {
    return Support::no("oneDNN's bf16 sums of this many terms are unreliable with AMX");
  }
  return *find(call) ? Support::yes()
                     : Support::no("oneDNN has no such matrix product for this CPU");
}

// The method for f16, and for bf16 where oneDNN is not fast: see conv2d.cpp.
template <void (*kRun)(const KernelArgs&)>
constexpr Kernel kWidenedProduct{"cpu_onednn_f32", onednn::supports_widened,
                                 [](const KernelArgs& args) { onednn::run_widened(args, kRun); }};

}  // namespace

extern const KernelList matmul{
    {{{"cpu_bf16_gemm", supports_matmul_tiles, run_matmul_tiles, nullptr, matmul_tiles_rows},
      {"cpu_onednn", supports<matmul_call>, run_matmul},
      kWidenedProduct<run_matmul>}}};
extern const KernelList linear{{{{"cpu_bf16_gemm", supports_linear_tiles, run_linear_tiles},
                                 {"cpu_onednn", supports<linear_call>, run_linear},
                                 kWidenedProduct<run_linear>}}};

}  // namespace mezzo::kernels::cpu
