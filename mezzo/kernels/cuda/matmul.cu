// Matrix products by cuBLASLt, or in tiles through shared memory where cuBLASLt has no algorithm.
#include "mezzo/kernels/cuda/bias.cuh"
#include "mezzo/kernels/cuda/cublas_plan.h"
#include "mezzo/kernels/cuda/map.cuh"
#include "mezzo/kernels/cuda/products.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/tf32.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr int kTile = 16;

// Element (row, column) of the transposed or plain operands.
template <class T, class Out, class Bias>
__global__ void tiled_kernel(Product p, const T* a, const T* b, const Bias* bias, Out* out) {
  __shared__ float tile_a[kTile][kTile + 1];
  __shared__ float tile_b[kTile][kTile + 1];
  const std::int64_t across = (p.n + kTile - 1) / kTile;
  const std::int64_t down = (p.m + kTile - 1) / kTile;
  for (std::int64_t t = blockIdx.x; t < across * down * p.batch; t += gridDim.x) {
    const std::int64_t item = t / (across * down);
    const std::int64_t row = t / across % down * kTile + threadIdx.y;
    const std::int64_t column = t % across * kTile + threadIdx.x;
    const T* from_a = a + item * p.a_step;
    const T* from_b = b + item * p.b_step;
    float sum = 0;
    for (std::int64_t k = 0; k < p.k; k += kTile) {
      const std::int64_t k_a = k + threadIdx.x;
      const std::int64_t k_b = k + threadIdx.y;
      tile_a[threadIdx.y][threadIdx.x] =
          row < p.m && k_a < p.k ? widen(from_a[p.transpose_a ? k_a * p.m + row : row * p.k + k_a])
                                 : 0.0F;
      tile_b[threadIdx.y][threadIdx.x] =
          column < p.n && k_b < p.k
              ? widen(from_b[p.transpose_b ? column * p.k + k_b : k_b * p.n + column])
              : 0.0F;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
        sum = fmaf(tile_a[threadIdx.y][i], tile_b[i][threadIdx.x], sum);
      }
      __syncthreads();
    }
    if (row >= p.m || column >= p.n) continue;
    if (bias != nullptr) sum += widen(bias[column]);
    out[item * p.out_step + row * p.n + column] = narrow<Out>(sum);
  }
}

// Queues a product by tiled_kernel(). `bias`: [p.n], f32, or null.
void start_tiled(const Launch& launch, const Product& p, const void* a, const void* b,
                 const float* bias, void* out) {
  const std::int64_t tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile) * p.batch;
  const int blocks = launch.blocks_for(tiles * kThreads);
  visit_vector_dtype(p.dtype, [&]<class T>() {
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    const auto start = [&](auto* to) {
      tiled_kernel<<<blocks, dim3(kTile, kTile), 0, launch.stream()>>>(p, left, right, bias, to);
    };
    if (p.result == DType::kF32) {
      start(static_cast<float*>(out));
    } else {
      start(static_cast<T*>(out));
    }
  });
  check_launch("tiled_kernel");
}

// The products of a call: one for each index of the leading dimensions that cannot be one strided
// batch.
struct Work {
  Product product;
  Tensor a, b, bias;
  Loop<3> batches;  // operands: the result, a, b

  // Calls use(offset of the result, of a, of b), in elements.
  template <class Use>
  void for_each(const Use& use) const {
    Shape outer = batches.sizes;
    outer.back() = 1;
    for (std::int64_t i = 0; i < outer.numel(); ++i) {
      use(offset_of(i, outer, batches.strides[0]), offset_of(i, outer, batches.strides[1]),
          offset_of(i, outer, batches.strides[2]));
    }
  }
};

int alignment_of(std::initializer_list<const Tensor*> tensors) {
  std::uintptr_t bits = 16;
  for (const Tensor* tensor : tensors) {
    if (tensor->defined()) bits |= reinterpret_cast<std::uintptr_t>(tensor->address());
  }
  return static_cast<int>(bits & (0 - bits));  // the lowest set bit
}

Work matmul_work(const KernelArgs& args) {
  const auto& attrs = args.attrs<MatmulAttrs>();
  const Tensor& output = args.output();
  Work work{{},
            dense(args.input(0), Format::kContiguous),
            dense(args.input(1), Format::kContiguous),
            {},
            {}};
  const auto leading = [&](const Tensor& t, std::int64_t rows, std::int64_t columns) {
    // Treats each matrix as one element of a tensor with the leading dimensions.
    Strides strides = Shape::filled(output.rank() - 2, 0);
    std::int64_t step = rows * columns;
    for (std::size_t i = t.rank() - 2; i-- > 0;) {
      if (t.shape()[i] != 1) strides[i + output.rank() - t.rank()] = step;
      step *= t.shape()[i];
    }
    return strides;
  };
  if (args.has(2)) work.bias = dense(args.input(2), Format::kContiguous);
  Product& p = work.product;
  p.m = output.size(-2);
  p.n = output.size(-1);
  p.k = work.a.size(attrs.transpose_a ? -2 : -1);
  p.transpose_a = attrs.transpose_a;
  p.transpose_b = attrs.transpose_b;
  p.dtype = work.a.dtype();
  p.result = work.bias.defined() ? DType::kF32 : output.dtype();  // the bias is added to f32 sums
  p.tf32 = is_tf32_allowed();
  const Shape batch(std::span(output.shape().begin(), output.rank() - 2));
  work.batches = make_loop<3>(
      batch, {leading(output, p.m, p.n), leading(work.a, p.m, p.k), leading(work.b, p.k, p.n)});
  p.batch = work.batches.inner();
  p.out_step = work.batches.inner_stride(0);
  p.a_step = work.batches.inner_stride(1);
  p.b_step = work.batches.inner_stride(2);
  // Later products of a list may begin anywhere.
  p.alignment = work.batches.rank() > 1 ? static_cast<int>(size_of(p.dtype))
                                        : alignment_of({&work.a, &work.b, &output});
  return work;
}

Work linear_work(const KernelArgs& args) {
  const Tensor& output = args.output();
  Work work{{},
            dense(args.input(0), Format::kContiguous),
            dense(args.input(1), Format::kContiguous),
            {},
            {}};
  if (args.has(2)) work.bias = dense(args.input(2), Format::kContiguous);
  Product& p = work.product;
  p.n = output.shape().back();
  p.m = output.numel() / p.n;
  p.k = work.b.size(1);
  p.transpose_b = true;
  p.dtype = work.a.dtype();
  p.result = output.dtype();
  p.tf32 = is_tf32_allowed();
  p.has_bias = work.bias.defined() && work.bias.dtype() == output.dtype();
  p.alignment = alignment_of({&work.a, &work.b, &output, &work.bias});
  // cuBLASLt adds a bias of the result's dtype only. Rounding an f32 bias to 16 bits would lose
  // what it is kept in f32 for. So the sums stay f32 until the bias has been added.
  if (work.bias.defined() && !p.has_bias) p.result = DType::kF32;
  work.batches = make_loop<3>(Shape{}, {});
  return work;
}

Work work_of(const KernelArgs& args) {
  return args.attributes.holds<MatmulAttrs>() ? matmul_work(args) : linear_work(args);
}

char* at(const Tensor& tensor, std::int64_t offset) {
  return static_cast<char*>(tensor.address()) +
         offset * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

void run_cublas(const KernelArgs& args) {
  const Work work = work_of(args);
  const Tensor& output = args.output();
  const Launch launch(output);
  const Product& p = work.product;
  const CublasPlan& plan = plan_again(launch.context(), p, "matmul");
  const Tensor sums = p.result == output.dtype()
                          ? output
                          : empty(output.shape(), p.result, Format::kContiguous, output.device());
  work.for_each([&](std::int64_t to, std::int64_t a, std::int64_t b) {
    run_plan(launch.context(), plan,
             {.a = at(work.a, a),
              .b = at(work.b, b),
              .bias = p.has_bias ? work.bias.address() : nullptr,
              .out = at(sums, to)});
  });
  if (work.bias.defined() && !p.has_bias) add_bias(launch, sums, work.bias, output);
  output.bump_version();
}

Support has_plan(const KernelArgs& args) {
  if (const Support floats = float_dtypes_only(args); !floats) return floats;
  const Work work = work_of(args);
  if (work.product.k == 0) return Support::no("the sums have no terms");
  const Launch launch(args.output());
  return find_plan(launch.context(), work.product) != nullptr
             ? Support::yes()
             : Support::no("cuBLASLt has no algorithm for these sizes");
}

void run_tiled(const KernelArgs& args) {
  Work work = work_of(args);
  const Tensor& output = args.output();
  const Launch launch(output);
  work.product.result = output.dtype();  // the kernel adds the bias before it rounds
  const Tensor bias = work.bias.defined() ? dense_f32(work.bias) : Tensor();
  work.for_each([&](std::int64_t to, std::int64_t a, std::int64_t b) {
    start_tiled(launch, work.product, at(work.a, a), at(work.b, b), in_or_null<float>(bias),
                at(output, to));
  });
  output.bump_version();
}

constexpr KernelList kProducts{
    {{{"cuda_cublaslt", has_plan, run_cublas}, {"cuda_tiled", float_dtypes_only, run_tiled}}}};

}  // namespace

void run_product(const Launch& launch, const Product& p, const void* a, const void* b, void* out) {
  const CublasPlan* plan =
      is_kernel_disabled("cuda_cublaslt") ? nullptr : find_plan(launch.context(), p);
  if (plan != nullptr) {
    run_plan(launch.context(), *plan, {.a = a, .b = b, .out = out});
  } else {
    start_tiled(launch, p, a, b, nullptr, out);
  }
}

extern const KernelList matmul = kProducts;
extern const KernelList linear = kProducts;

}  // namespace mezzo::kernels::cuda
