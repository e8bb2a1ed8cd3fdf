// What the kernels of attention share: where the rows of heads are, what a query may attend to, and
// what dropout drops.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/kernels/cuda/philox.cuh"
#include "mezzo/ops/attention_attrs.h"

namespace mezzo::kernels::cuda {

// The tensor, or a dense copy if the elements of its rows are not adjacent.
inline Tensor with_adjacent_elements(const Tensor& x) {
  return x.size(3) == 1 || x.strides()[3] == 1 ? x : dense(x, Format::kContiguous);
}

// The rows of a tensor [b, positions, heads, n]. Steps are in elements.
template <class T>
struct HeadRows {
  const T* data;
  std::int64_t sample, position, head;
  int size;        // n
  bool is_packed;  // rows begin at 16 bytes and have whole packs

  // The elements of a row of x must be adjacent.
  explicit HeadRows(const Tensor& x)
      : data(in<T>(x)),
        sample(x.strides()[0]),
        position(x.strides()[1]),
        head(x.strides()[2]),
        size(static_cast<int>(x.size(3))) {
    constexpr int N = kPackOf<T>;
    is_packed = is_aligned<N>(data) && size % N == 0 && sample % N == 0 && position % N == 0 &&
                head % N == 0;
  }

  // Row 0 of a head.
  __device__ const T* of(std::int64_t b, std::int64_t h) const {
    return data + b * sample + h * head;
  }
};

// A call of attention or of its gradient, without the operands of products.
struct AttentionCall {
  AttentionSizes sizes;
  bool causal;
  float scale;
  // [b|1, h|1, t|1, s|1], or null; steps along axes of size 1 are 0.
  const void* mask = nullptr;
  bool mask_is_bool = false;
  std::int64_t mask_sample = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  bool drops;
  DropoutAttrs dropout;
  // A recording holds the pointer, and finds another start in each run.
  const std::int64_t* start;
  std::uint32_t threshold;
  float kept;  // what probabilities that are kept are multiplied by

  // The inputs q, k, v and mask have the numbers from `first` on. `parts`: the input that dropout's
  // position is relative to, dense, or undefined.
  AttentionCall(const KernelArgs& args, std::size_t first, const Tensor& parts)
      : sizes(args.input(first).shape(), args.input(first + 1).shape(),
              args.input(first + 2).shape()),
        causal(args.attrs<AttentionAttrs>().causal),
        scale(static_cast<float>(args.attrs<AttentionAttrs>().scale)),
        drops(args.attrs<AttentionAttrs>().drops()),
        dropout(args.attrs<AttentionAttrs>().as_dropout()),
        start(in_or_null<std::int64_t>(parts)),
        threshold(dropout.threshold()),
        kept(static_cast<float>(1 / (1 - dropout.p))) {
    if (args.has(first + 3)) set_mask(args.input(first + 3));
  }

  std::int64_t largest_row() const { return std::max(sizes.features, sizes.values); }

 private:
  void set_mask(const Tensor& x) {
    const auto step = [&](std::size_t axis) {
      return x.shape()[axis] == 1 ? 0 : x.strides()[axis];
    };
    mask = x.address();
    mask_is_bool = x.dtype() == DType::kBool;
    mask_sample = step(0);
    mask_head = step(1);
    mask_query = step(2);
    mask_key = step(3);
  }
};

// The input that a call's position in the random stream is relative to, or an undefined tensor.
inline Tensor random_start(const KernelArgs& args, std::size_t i) {
  return args.has(i) ? dense(args.input(i), Format::kContiguous) : Tensor();
}

// The scores of one head, and which probabilities dropout keeps.
class HeadScores {
 public:
  __device__ HeadScores(const AttentionCall& call, std::int64_t sample, std::int64_t head)
      : call_(call),
        queries_(static_cast<int>(call.sizes.queries)),
        keys_(static_cast<int>(call.sizes.keys)),
        mask_(sample * call.mask_sample + head * call.mask_head) {
    if (!call.drops) return;
    place_ = call.dropout.place(call.start);
    place_.offset += call.sizes.word(sample, head, 0);
  }

  // The keys that a query may see are those before this one.
  __device__ int visible(int query) const {
    return call_.causal ? query + 1 + keys_ - queries_ : keys_;
  }
  // The first query that sees a key.
  __device__ int first_seeing(int key) const {
    return call_.causal ? max(0, key - (keys_ - queries_)) : 0;
  }
  // Whether query `query`, and all later ones, see the keys before `end`.
  __device__ bool sees_all(int query, int end) const {
    return call_.mask == nullptr && end <= visible(query);
  }

  // Rounded here, and not fused with a later difference in some tiles only: the bits of a query do
  // not depend on how many queries there are.
  __device__ float scaled(float product) const { return __fmul_rn(product, call_.scale); }
  // The score from the product of a query and a key; -infinity if the key is hidden, or if there is
  // no such query or key.
  __device__ float score(float product, int query, int key) const {
    if (query >= queries_ || key >= visible(query)) return -INFINITY;
    const float shown = scaled(product);
    if (call_.mask == nullptr) return shown;
    const std::int64_t at = mask_ + query * call_.mask_query + key * call_.mask_key;
    if (call_.mask_is_bool) {
      return static_cast<const std::uint8_t*>(call_.mask)[at] != 0 ? shown : -INFINITY;
    }
    const float added = static_cast<const float*>(call_.mask)[at];
    // The product of a hidden key may be NaN.
    return added == -INFINITY ? added : shown + added;
  }

  // Bit k is set if dropout drops the probability of a query for key 4 * block + k.
  __device__ std::uint32_t dropped_of(int query, int block) const {
    std::uint32_t words[4];
    const auto row = static_cast<std::uint64_t>(query * call_.sizes.pitch());
    philox_block(place_.seed, (place_.offset + row) / 4 + static_cast<std::uint64_t>(block), words);
    std::uint32_t dropped = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) dropped |= ((words[k] >> 8) < call_.threshold ? 1U : 0U) << k;
    return dropped;
  }

 private:
  const AttentionCall& call_;
  int queries_, keys_;
  std::int64_t mask_;  // offset of the head's mask
  RandomPosition place_;
};

// `supports` of the kernels; the inputs q, k and v have the numbers from `first` on.
inline Support supports_attention(const KernelArgs& args, std::size_t first) {
  const AttentionSizes sizes(args.input(first).shape(), args.input(first + 1).shape(),
                             args.input(first + 2).shape());
  if (!is_vector_dtype(args.input(first).dtype())) {
    return Support::no("only f32, bf16 and f16 are supported on GPUs");
  }
  if (std::max(sizes.features, sizes.values) > AttentionSizes::kMostOnDevices) {
    return Support::no("heads of more than 256 features do not fit in a thread block's memory");
  }
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t rows = std::max(sizes.queries, sizes.keys);
  return rows < kMost && ceil_div(rows, std::int64_t{64}) * sizes.heads * sizes.batch < kMost
             ? Support::yes()
             : Support::no("queries, keys and thread blocks are counted in 32 bits");
}

// Calls use.operator()<kSize>() with the least number of elements for which there is a kernel.
template <class Use>
void visit_row_size(std::int64_t size, const Use& use) {
  if (size <= 64) {
    use.template operator()<64>();
  } else if (size <= 128) {
    use.template operator()<128>();
  } else {
    use.template operator()<256>();
  }
}

}  // namespace mezzo::kernels::cuda
