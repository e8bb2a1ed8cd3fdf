// Attention tile by tile (Dao, "FlashAttention-2", 2023). A thread block takes 64 queries of a head
// and goes through the keys once. It keeps the maximum and the sum of each query so far, and its
// result so far, which is rescaled when the maximum grows. Scores are never stored.
#include "mezzo/kernels/cuda/attention_products.cuh"
#include "mezzo/kernels/cuda/rows.cuh"

namespace mezzo::kernels::cuda {
namespace {

template <class T>
struct ForwardOperands {
  HeadRows<T> q, k, v;
  T* out;      // [b, t, h, dv]
  float* lse;  // [b, h, t]
};

// What a lane knows of its two queries.
struct Statistics {
  float highest[2] = {-INFINITY, -INFINITY};  // score so far
  float total[2] = {0, 0};                    // of exp(score - highest) in the lane's columns
};

// Replaces a tile's scores by exp(score - highest so far), and rescales what was added up before.
// Maxima, sums and exponents are f32: in 16 bits a sum of many probabilities would stop growing.
template <int kParts, int kOut>
__device__ void to_probabilities(Statistics& so_far, SumFragment (&scores)[kParts],
                                 SumFragment (&sums)[kOut]) {
#pragma unroll
  for (int down = 0; down < 2; ++down) {
    float highest = so_far.highest[down];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      highest = fmaxf(highest, fmaxf(scores[p][down * 2], scores[p][down * 2 + 1]));
    }
    highest = all_of_row(highest, LargestOf());
    // Queries that have seen no key yet have no finite maximum to subtract.
    const float subtracted = highest == -INFINITY ? 0.0F : highest;
    const float keep = expf(so_far.highest[down] - subtracted);
    float total = so_far.total[down] * keep;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
#pragma unroll
      for (int i = down * 2; i < down * 2 + 2; ++i) {
        scores[p][i] = expf(scores[p][i] - subtracted);
        total += scores[p][i];
      }
    }
#pragma unroll
    for (int p = 0; p < kOut; ++p) {
      sums[p][down * 2] *= keep;
      sums[p][down * 2 + 1] *= keep;
    }
    so_far.highest[down] = highest;
    so_far.total[down] = total;
  }
}

// Stores the results of a lane's queries, `query` being the warp's first one.
template <class T, int kOut>
__device__ void store_results(const AttentionCall& call, const ForwardOperands<T>& at,
                              const HeadTile& place, const Statistics& all,
                              const SumFragment (&sums)[kOut]) {
  const AttentionSizes& sizes = call.sizes;
#pragma unroll
  for (int down = 0; down < 2; ++down) {
    const float total = all_of_row(all.total[down], SumOf());
    const std::int64_t query = place.first + warp_row() + lane_row() + down * 8;
    if (query >= sizes.queries) continue;
    // A query that sees no key: 0, and exp(score - lse) is 0 in the gradient.
    const bool sees_nothing = total == 0;
    if (lane_column() == 0) {
      at.lse[(place.sample * sizes.heads + place.head) * sizes.queries + query] =
          sees_nothing ? INFINITY : all.highest[down] + logf(total);
    }
    const std::int64_t row = (place.sample * sizes.queries + query) * sizes.heads + place.head;
    store_sums(sums, down, sees_nothing ? 0.0F : call.kept / total, at.out + row * sizes.values, 0,
               at.v.size);
  }
}

template <class T, int kSize>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<kSize>)
    forward_kernel(AttentionCall call, ForwardOperands<T> at) {
  constexpr int kColumns = kTileColumns<T, kSize>;
  __shared__ StagedRows<T, kSize, kColumns> keys[2];
  __shared__ StagedRows<T, kSize, kColumns> values[2];
  const AttentionSizes& sizes = call.sizes;
  const int queries = static_cast<int>(sizes.queries);
  const auto place = HeadTile::at<true>(blockIdx.x, sizes.queries, sizes.heads);
  const HeadScores head(call, place.sample, place.head);
  const T* k = at.k.of(place.sample, place.head / sizes.group());
  const T* v = at.v.of(place.sample, place.head / sizes.group());
  const int query = place.first + warp_row();  // the warp's first one
  const int seen = head.visible(min(place.first + kTileRows, queries) - 1);
  const int seen_by_warp = query < queries ? head.visible(min(query + kWarpRows, queries) - 1) : 0;
  const LeftOperand<T, kSize, true> left(
      WarpRows<T>(at.q, at.q.of(place.sample, place.head), query, queries));
  Statistics so_far;
  SumFragment sums[kSize / 8];
  clear(sums);
  const auto stage = [&](int n, int buffer) {
    keys[buffer].stage(at.k, k, n * kColumns, seen);
    values[buffer].stage(at.v, v, n * kColumns, seen);
  };
  const auto add_tile = [&](int n, int buffer) {
    const int key = n * kColumns;
    if (key >= seen_by_warp) return;
    SumFragment numbers[kColumns / 8];
    left.multiply(keys[buffer], numbers);
    const int row = query + lane_row();
    const int column = key + lane_column();
    to_scores<false>(head, head.sees_all(query, key + kColumns), row, column, numbers);
    to_probabilities(so_far, numbers, sums);
    // The sums that probabilities are divided by are of those before dropout.
    if (call.drops) {
      clear_dropped(dropped_in<false, kColumns / 8>(head, row, column), numbers);
    }
    add_rows(numbers, values[buffer], 0, at.v.size, sums);
  };
  for_tiles((seen + kColumns - 1) / kColumns, stage, add_tile);
  store_results(call, at, place, so_far, sums);
}

void run(const KernelArgs& args) {
  using In = AttentionInput;
  const Launch launch(args.output());
  const Tensor start = random_start(args, In::kStart);
  const AttentionCall call(args, In::kQ, start);
  const Tensor q = with_adjacent_elements(args.input(In::kQ));
  const Tensor k = with_adjacent_elements(args.input(In::kK));
  const Tensor v = with_adjacent_elements(args.input(In::kV));
  const std::int64_t units = tiles_of(call.sizes.queries) * call.sizes.heads * call.sizes.batch;
  if (units == 0) return;
  visit_vector_dtype(q.dtype(), [&]<class T>() {
    const ForwardOperands<T> at{HeadRows<T>(q), HeadRows<T>(k), HeadRows<T>(v),
                                out<T>(args.output(0)), out<float>(args.output(1))};
    visit_row_size(call.largest_row(), [&]<int kSize>() {
      forward_kernel<T, kSize>
          <<<static_cast<unsigned>(units), kTileThreads, 0, launch.stream()>>>(call, at);
    });
  });
  check_launch("forward_kernel");
}

Support supports(const KernelArgs& args) { return supports_attention(args, AttentionInput::kQ); }

}  // namespace

extern const KernelList attention{{{{"cuda", supports, run}}}};

}  // namespace mezzo::kernels::cuda
