// The gradient of attention, tile by tile. Probabilities are made again from log-sum-exp.
//
// With P the probabilities, dO the gradient of the result O and delta = rowsum(dO * O), the
// gradient of scores is dS = P * (dO V^T - delta). One kernel takes tiles of queries and adds dQ =
// dS K over the keys; another takes tiles of keys and adds dK = dS^T Q and dV = P^T dO over the
// queries. That computes two of seven products twice, but each sum is added up in a fixed order by
// one thread: atomic additions would give other bits in every run.
#include "mezzo/kernels/cuda/attention_products.cuh"
#include "mezzo/kernels/cuda/rows.cuh"

namespace mezzo::kernels::cuda {
namespace {

// Two tiles of products are in registers at a time, so that they are smaller than in the forward
// pass.
template <class T, int kSize>
inline constexpr int kGradColumns = kTileColumns<T, kSize> < 32 ? kTileColumns<T, kSize> : 32;

template <class T>
struct GradOperands {
  HeadRows<T> grad, q, k, v;
  const float* lse;    // [b, h, t]
  const float* delta;  // [b, h, t]
  T* grad_q;           // [b, t, h, d]
  T* grad_k;           // [b, s, h_kv, d]
  T* grad_v;           // [b, s, h_kv, dv]
};

// delta: a row per query and head, in the order of the result. Its sums are f32, since it is nearly
// equal to what it is subtracted from.
template <class T>
struct Delta {
  HeadRows<T> grad, result;
  std::int64_t queries, heads;
  float* out;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t head = row % heads;
    const std::int64_t query = row / heads % queries;
    const std::int64_t sample = row / heads / queries;
    const T* a = grad.of(sample, head) + query * grad.position;
    const T* b = result.of(sample, head) + query * result.position;
    float sum = 0;
    for_packs<Of, 1>(rows.size, [&](std::int64_t j) { sum = fmaf(widen(a[j]), widen(b[j]), sum); });
    sum = Of::all(sum, SumOf());
    if (Of::lane() == 0) out[(sample * heads + head) * queries + query] = sum;
  }
};

// Log-sum-exp and delta of some queries.
template <int kCount>
struct QueryFacts {
  float lse[kCount];
  float delta[kCount];

  // Those of query `query` of a head whose first one has the place `head`. If there is none, its
  // probabilities are 0.
  template <class T>
  __device__ void set(int i, const GradOperands<T>& at, std::int64_t head, int query, int queries) {
    lse[i] = query < queries ? at.lse[head + query] : INFINITY;
    delta[i] = query < queries ? at.delta[head + query] : 0.0F;
  }
};

// Replaces scores by probabilities, and the gradients of these by the gradients of scores.
// place(p, i) is the index of the query's facts. Both stay f32 until they are multiplied.
template <int kCount, int kParts, class Place>
__device__ void to_score_grads(float kept, const QueryFacts<kCount>& facts, const Place& place,
                               SumFragment (&scores)[kParts], SumFragment (&grads)[kParts]) {
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = place(p, i);
      scores[p][i] = expf(scores[p][i] - facts.lse[query]);
      grads[p][i] = scores[p][i] * (grads[p][i] * kept - facts.delta[query]);
    }
  }
}

// The rows of 64 queries.
template <class T, int kSize>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<kSize>)
    query_grad_kernel(AttentionCall call, GradOperands<T> at) {
  constexpr int kColumns = kGradColumns<T, kSize>;
  constexpr bool kKeeps = kSize <= 128;  // more would not fit into registers
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
  const LeftOperand<T, kSize, kKeeps> left_q(
      WarpRows<T>(at.q, at.q.of(place.sample, place.head), query, queries));
  const LeftOperand<T, kSize, kKeeps> left_grad(
      WarpRows<T>(at.grad, at.grad.of(place.sample, place.head), query, queries));
  const std::int64_t first_fact = (place.sample * sizes.heads + place.head) * sizes.queries;
  QueryFacts<2> facts;
#pragma unroll
  for (int down = 0; down < 2; ++down) {
    facts.set(down, at, first_fact, query + lane_row() + down * 8, queries);
  }
  SumFragment sums[kSize / 8];
  clear(sums);
  const auto stage = [&](int n, int buffer) {
    keys[buffer].stage(at.k, k, n * kColumns, seen);
    values[buffer].stage(at.v, v, n * kColumns, seen);
  };
  const auto add_tile = [&](int n, int buffer) {
    const int key = n * kColumns;
    if (key >= seen_by_warp) return;
    const int row = query + lane_row();
    const int column = key + lane_column();
    SumFragment numbers[kColumns / 8];
    SumFragment grads[kColumns / 8];
    left_q.multiply(keys[buffer], numbers);
    left_grad.multiply(values[buffer], grads);
    if (call.drops) clear_dropped(dropped_in<false, kColumns / 8>(head, row, column), grads);
    to_scores<false>(head, head.sees_all(query, key + kColumns), row, column, numbers);
    to_score_grads(
        call.kept, facts, [](int, int i) { return i / 2; }, numbers, grads);
    add_rows(grads, keys[buffer], 0, at.q.size, sums);
  };
  for_tiles((seen + kColumns - 1) / kColumns, stage, add_tile);
#pragma unroll
  for (int down = 0; down < 2; ++down) {
    const std::int64_t row = query + lane_row() + down * 8;
    if (row >= queries) continue;
    T* to = at.grad_q + ((place.sample * queries + row) * sizes.heads + place.head) * at.q.size;
    store_sums(sums, down, call.scale, to, 0, at.q.size);
  }
}

// The elements of the gradients of keys and of values that a thread block adds up.
template <int kSize>
inline constexpr int kKeyGradPart = kSize < 128 ? kSize : 128;

// The tiles of queries that see a tile of keys, of all heads that share these: tile n of the list.
struct SeeingQueries {
  int first_tile, tiles;  // per head
  std::int64_t first_head;

  __device__ std::int64_t head(int n) const { return first_head + n / tiles; }
  __device__ int tile(int n) const { return first_tile + n % tiles; }
};

// Stores rows of the gradients of 64 keys.
template <class T, int kParts>
__device__ void store_key_grads(const HeadTile& place, const AttentionSizes& sizes, float factor,
                                const SumFragment (&sums)[kParts], T* grads, int first, int size) {
#pragma unroll
  for (int down = 0; down < 2; ++down) {
    const std::int64_t key = place.first + warp_row() + lane_row() + down * 8;
    if (key >= sizes.keys) continue;
    T* to = grads + ((place.sample * sizes.keys + key) * sizes.key_heads + place.head) * size;
    store_sums(sums, down, factor, to, first, size);
  }
}

// A part of the rows of 64 keys and values. Rows of products are keys here, columns queries. With
// the sums of two results, a third block on a multiprocessor would not fit into registers.
template <class T, int kSize>
__global__ void __launch_bounds__(kTileThreads, 2)
    key_grad_kernel(AttentionCall call, GradOperands<T> at) {
  constexpr int kColumns = kGradColumns<T, kSize>;
  constexpr bool kKeeps = kSize <= 64;  // more would not fit into registers
  __shared__ StagedRows<T, kSize, kColumns> rows_of_q[2];
  __shared__ StagedRows<T, kSize, kColumns> rows_of_grad[2];
  const AttentionSizes& sizes = call.sizes;
  const int queries = static_cast<int>(sizes.queries);
  const int keys = static_cast<int>(sizes.keys);
  const auto place = HeadTile::at<false>(blockIdx.x, sizes.keys, sizes.key_heads);
  const int part = blockIdx.y * kKeyGradPart<kSize>;
  const int key = place.first + warp_row();  // the warp's first one
  const LeftOperand<T, kSize, kKeeps> left_k(
      WarpRows<T>(at.k, at.k.of(place.sample, place.head), key, keys));
  const LeftOperand<T, kSize, kKeeps> left_v(
      WarpRows<T>(at.v, at.v.of(place.sample, place.head), key, keys));
  SumFragment sums_k[kKeyGradPart<kSize> / 8];
  SumFragment sums_v[kKeyGradPart<kSize> / 8];
  clear(sums_k);
  clear(sums_v);
  SeeingQueries seeing{0, (queries + kColumns - 1) / kColumns, place.head * sizes.group()};
  seeing.first_tile =
      HeadScores(call, place.sample, place.head).first_seeing(place.first) / kColumns;
  seeing.tiles -= seeing.first_tile;
  const auto stage = [&](int n, int buffer) {
    const int first = seeing.tile(n) * kColumns;
    rows_of_q[buffer].stage(at.q, at.q.of(place.sample, seeing.head(n)), first, queries);
    rows_of_grad[buffer].stage(at.grad, at.grad.of(place.sample, seeing.head(n)), first, queries);
  };
  const auto add_tile = [&](int n, int buffer) {
    const HeadScores head(call, place.sample, seeing.head(n));
    const int query = seeing.tile(n) * kColumns;
    if (key >= keys || head.first_seeing(key) >= query + kColumns) return;
    const int row = key + lane_row();
    const int column = query + lane_column();
    QueryFacts<kColumns / 4> facts;
    const std::int64_t first_fact = (place.sample * sizes.heads + seeing.head(n)) * queries;
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
      facts.set(i, at, first_fact, column + i / 2 * 8 + i % 2, queries);
    }
    SumFragment numbers[kColumns / 8];
    SumFragment grads[kColumns / 8];
    left_k.multiply(rows_of_q[buffer], numbers);
    left_v.multiply(rows_of_grad[buffer], grads);
    const std::uint32_t dropped =
        call.drops ? dropped_in<true, kColumns / 8>(head, row, column) : 0;
    clear_dropped(dropped, grads);
    const bool shows_all = head.sees_all(query, key + kWarpRows) && query + kColumns <= queries;
    to_scores<true>(head, shows_all, row, column, numbers);
    to_score_grads(
        call.kept, facts, [](int p, int i) { return p * 2 + i % 2; }, numbers, grads);
    clear_dropped(dropped, numbers);
    add_rows(numbers, rows_of_grad[buffer], part, at.v.size, sums_v);
    add_rows(grads, rows_of_q[buffer], part, at.q.size, sums_k);
  };
  for_tiles(seeing.tiles * static_cast<int>(sizes.group()), stage, add_tile);
  store_key_grads(place, sizes, call.kept, sums_v, at.grad_v, part, at.v.size);
  store_key_grads(place, sizes, call.scale, sums_k, at.grad_k, part, at.q.size);
}

template <class T, int kSize>
void start_kernels(const Launch& launch, const AttentionCall& call, const GradOperands<T>& at) {
  const AttentionSizes& sizes = call.sizes;
  if (const std::int64_t units = sizes.batch * sizes.heads * tiles_of(sizes.queries); units != 0) {
    query_grad_kernel<T, kSize>
        <<<static_cast<unsigned>(units), kTileThreads, 0, launch.stream()>>>(call, at);
    check_launch("query_grad_kernel");
  }
  if (const std::int64_t units = sizes.batch * sizes.key_heads * tiles_of(sizes.keys); units != 0) {
    const auto parts = ceil_div(call.largest_row(), kKeyGradPart<kSize>);
    const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(parts));
    key_grad_kernel<T, kSize><<<grid, kTileThreads, 0, launch.stream()>>>(call, at);
    check_launch("key_grad_kernel");
  }
}

void run(const KernelArgs& args) {
  using In = AttentionGradInput;
  const Launch launch(args.output());
  const Tensor start = random_start(args, In::kStart);
  const AttentionCall call(args, In::kQ, start);
  const AttentionSizes& sizes = call.sizes;
  const Tensor grad = with_adjacent_elements(args.input(In::kGrad));
  const Tensor q = with_adjacent_elements(args.input(In::kQ));
  const Tensor k = with_adjacent_elements(args.input(In::kK));
  const Tensor v = with_adjacent_elements(args.input(In::kV));
  const Tensor result = with_adjacent_elements(args.input(In::kResult));
  const Tensor lse = dense(args.input(In::kLse), Format::kContiguous);
  const std::int64_t queries = sizes.batch * sizes.queries * sizes.heads;
  const Scratch delta(static_cast<std::size_t>(queries) * sizeof(float), launch.device());
  visit_vector_dtype(q.dtype(), [&]<class T>() {
    for_dense_rows(launch,
                   Delta<T>{HeadRows<T>(grad), HeadRows<T>(result), sizes.queries, sizes.heads,
                            delta.as<float>()},
                   {queries, sizes.values});
    const GradOperands<T> at{
        HeadRows<T>(grad),      HeadRows<T>(q),         HeadRows<T>(k),
        HeadRows<T>(v),         in<float>(lse),         delta.as<float>(),
        out<T>(args.output(0)), out<T>(args.output(1)), out<T>(args.output(2))};
    visit_row_size(call.largest_row(),
                   [&]<int kSize>() { start_kernels<T, kSize>(launch, call, at); });
  });
}

Support supports(const KernelArgs& args) {
  return supports_attention(args, AttentionGradInput::kQ);
}

}  // namespace

extern const KernelList attention_grad{{{{"cuda", supports, run}}}};

}  // namespace mezzo::kernels::cuda
