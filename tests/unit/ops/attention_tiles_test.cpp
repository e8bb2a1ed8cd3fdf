// Tests attention on the tile unit. A unit in plain C++ stands in for it, so that only the
// instructions themselves need a CPU that has it; there, both must give the same bits.
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/attention/forward.h"
#include "mezzo/kernels/cpu/attention/grad.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/attention_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "tests/unit/ops/attention_case.h"
#include "tests/unit/ops/emulated_tiles.h"

namespace mezzo {
namespace {

using kernels::attention::TileProduct;
using kernels::attention::TileUnit;
using test::AttentionSize;
using test::Doubles;
using test::emulated_unit;
using test::random_tensor;
using testing::Each;

// A call of the kernels: q and grad [b, t, h, d], k and v [b, s, h_kv, d].
struct TileCall {
  AttentionSize size;
  AttentionAttrs attrs;
  Tensor mask;
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor grad;

  explicit TileCall(const AttentionSize& s, AttentionAttrs a = {}, Tensor mask_of_call = {})
      : size(s),
        attrs(a),
        mask(std::move(mask_of_call)),
        q(random_tensor({s.batch, s.queries, s.heads, s.features}, 1, DType::kBf16)),
        k(random_tensor({s.batch, s.keys, s.key_heads, s.features}, 2, DType::kBf16)),
        v(random_tensor({s.batch, s.keys, s.key_heads, s.values}, 3, DType::kBf16)),
        grad(random_tensor({s.batch, s.queries, s.heads, s.values}, 4, DType::kBf16)) {
    attrs.scale = 1 / std::sqrt(static_cast<double>(s.features));
  }

  std::string text() const {
    return concat("q ", q, " k ", k, " v ", v, " mask ", mask, " causal ", attrs.causal,
                  " dropout ", attrs.dropout);
  }
};

constexpr const char* kNames[] = {"result", "lse", "grad_q", "grad_k", "grad_v"};

// What kNames says, by the kernels on that unit.
std::vector<Tensor> run_on(const TileUnit& unit, const TileCall& c) {
  const Tensor none;
  const Tensor* const inputs[] = {&c.q, &c.k, &c.v, &c.mask, &none};
  Tensor results[] = {empty(c.grad.shape(), DType::kBf16),
                      empty({c.size.batch, c.size.heads, c.size.queries})};
  const Attrs attrs = c.attrs;
  kernels::attention::run_forward_on(unit, {inputs, results, attrs});
  const Tensor* const more[] = {&c.grad, &c.q,        &c.k,        &c.v,
                                &c.mask, &results[0], &results[1], &none};
  Tensor grads[] = {empty(c.q.shape(), DType::kBf16), empty(c.k.shape(), DType::kBf16),
                    empty(c.v.shape(), DType::kBf16)};
  kernels::attention::run_grad_on(unit, {more, grads, attrs});
  return {results[0], results[1], grads[0], grads[1], grads[2]};
}

// The same by the reference, in double.
std::vector<Tensor> in_double(const TileCall& c) {
  const auto wide = [](const Tensor& x) {
    return x.defined() && is_floating(x.dtype()) ? x.astype(DType::kF64) : x;
  };
  const Tensor q = wide(c.q);
  const Tensor k = wide(c.k);
  const Tensor v = wide(c.v);
  const Tensor grad = wide(c.grad);
  const Tensor mask = wide(c.mask);
  const Tensor none;
  const Tensor* const inputs[] = {&q, &k, &v, &mask, &none};
  const Outputs results = call(*find_op("attention"), Inputs(inputs), c.attrs);
  const Tensor* const more[] = {&grad, &q, &k, &v, &mask, &results[0], &results[1], &none};
  const Outputs grads = call(*find_op("attention_grad"), Inputs(more), c.attrs);
  return {results[0], results[1], grads[0], grads[1], grads[2]};
}

std::vector<Doubles> all_bits(const std::vector<Tensor>& tensors) {
  std::vector<Doubles> bits;
  for (const Tensor& t : tensors) bits.push_back(t.to_vector<double>());
  return bits;
}

// Calls that together have every kind of tile: heads of many sizes, lengths that end within tiles,
// strips on the diagonal from any key on, masks, shared heads of keys, dropout.
std::vector<TileCall> tile_calls() {
  std::vector<TileCall> calls;
  for (const std::int64_t features : {7, 32, 33, 64, 80, 96, 128, 256}) {
    calls.emplace_back(AttentionSize{1, 2, 1, 19, 40, features, features});
    calls.emplace_back(AttentionSize{1, 2, 1, 19, 40, features, 37}, AttentionAttrs{true});
  }
  for (const bool causal : {false, true}) {
    for (const std::int64_t keys : {1, 7, 48, 64, 65, 129, 143}) {
      for (const std::int64_t queries : {std::int64_t{1}, keys - 19, keys - 3, keys}) {
        if (queries < 1) continue;
        calls.emplace_back(AttentionSize{1, 2, 2, queries, keys, 32, 16}, AttentionAttrs{causal});
      }
    }
  }
  // A query against a cache.
  calls.emplace_back(AttentionSize{2, 4, 2, 1, 150, 64, 64}, AttentionAttrs{true});
  const AttentionSize size{2, 4, 2, 35, 67, 16, 80};
  for (const Shape& shape : {Shape{2, 4, 35, 67}, Shape{2, 1, 1, 67}, Shape{1, 4, 35, 1}}) {
    const Tensor numbers = random_tensor(shape, 9);
    calls.emplace_back(size, AttentionAttrs{}, numbers);
    calls.emplace_back(size, AttentionAttrs{}, gt(numbers, -0.9));
    calls.emplace_back(size, AttentionAttrs{true}, numbers);
  }
  for (const bool causal : {false, true}) {
    calls.emplace_back(AttentionSize{1, 4, 2, 70, 99, 64, 32},
                       AttentionAttrs{.causal = causal, .dropout = 0.25, .position = {5, 8}});
  }
  return calls;
}

class AttentionTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().avx512) GTEST_SKIP() << "the kernels on tiles are compiled for AVX-512";
  }
};

TEST_F(AttentionTiles, AgreeWithDoubleArithmeticOnAnEmulatedUnit) {
  for (const TileCall& c : tile_calls()) {
    const std::vector<Tensor> got = run_on(emulated_unit(), c);
    const std::vector<Tensor> want = in_double(c);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double allowed =
          test::attention_tolerance(c.size, got[i].dtype(), test::largest_of(want[i]));
      EXPECT_LE(test::largest_difference(got[i], want[i]), allowed)
          << kNames[i] << " of " << c.text();
    }
  }
}

TEST_F(AttentionTiles, HaveTheSameBitsOnTheUnitOfTheCpu) {
  if (!kernels::has_tiles()) GTEST_SKIP() << "this CPU has no tile unit";
  for (const TileCall& c : tile_calls()) {
    EXPECT_EQ(all_bits(run_on(kernels::attention::tile_unit(), c)),
              all_bits(run_on(emulated_unit(), c)))
        << c.text();
  }
}

TEST_F(AttentionTiles, BitsDoNotDependOnThreads) {
  // Few heads are divided among threads, many are not.
  for (const std::int64_t heads : {2, 6}) {
    const TileCall c({1, heads, heads / 2, 150, 171, 32, 24}, {.causal = true});
    std::vector<Doubles> first;
    for (const int threads : {1, 2, 3, 5}) {
      const test::Threads guard(threads);
      const std::vector<Doubles> bits = all_bits(run_on(emulated_unit(), c));
      if (first.empty()) first = bits;
      EXPECT_EQ(bits, first) << threads << " threads, " << heads << " heads";
    }
  }
}

// The same elements within memory that is NaN everywhere else.
Tensor among_nan(const Tensor& x) {
  const Shape& s = x.shape();
  const Tensor all = full({s[0], s[1] + 20, s[2] + 1, s[3] + 40},
                          std::numeric_limits<double>::quiet_NaN(), DType::kBf16);
  const Tensor part =
      slice(slice(slice(all, 1, 0, s[1]), 2, 0, s[2]), 3, 0, s[3]);  // rows stay contiguous
  copy_elements(x, part);
  return part;
}

TEST_F(AttentionTiles, NothingBesideTheOperandsReachesTheResults) {
  for (const std::int64_t keys : {48, 57}) {
    for (const std::int64_t features : {64, 80}) {
      TileCall c({1, 2, 1, 37, keys, features, features}, {.causal = true});
      const std::vector<Doubles> want = all_bits(run_on(emulated_unit(), c));
      for (Tensor* x : {&c.q, &c.k, &c.v, &c.grad}) *x = among_nan(*x);
      // Freed, it is likely to be the kernels' scratch memory.
      full({1 << 20}, std::numeric_limits<double>::quiet_NaN());
      EXPECT_EQ(all_bits(run_on(emulated_unit(), c)), want) << c.text();
    }
  }
}

// Memory that products may read in place, how often they do, and how often beyond its end.
struct Watched {
  const char* begin = nullptr;
  const char* end = nullptr;
  int reads = 0;
  int crossings = 0;
};
Watched watched;

void multiply_watched(const TileProduct& p) {
  if (p.a >= watched.begin && p.a < watched.end) {
    ++watched.reads;
    const char* const end = p.a + (p.row_tiles * 16 - 1) * p.a_row + p.term_tiles * 64;
    if (end > watched.end) ++watched.crossings;
  }
  emulated_unit().multiply(p);
}

TEST_F(AttentionTiles, RowsAreReadInPlaceWhereTheyAreWholeTiles) {
  const test::Threads one(1);
  const TileUnit unit{multiply_watched, false};
  for (const std::int64_t features : {64, 80}) {
    for (const std::int64_t keys : {48, 57, 121}) {
      const TileCall c({1, 1, 1, 19, keys, features, features});
      const auto* const begin = static_cast<const char*>(c.k.address());
      watched = {begin, begin + 2 * c.k.numel()};
      run_on(unit, c);
      EXPECT_EQ(watched.reads > 0, features == 64 && keys != 57) << c.text();
      EXPECT_EQ(watched.crossings, 0) << c.text();
    }
  }
}

// The scores of the key are -infinity, but not those of columns without a query.
TEST_F(AttentionTiles, AnInfiniteKeyThatNoQuerySeesLeavesTheGradientOfValues) {
  TileCall c({1, 1, 1, 19, 20, 32, 32});
  c.q = full(c.q.shape(), 0.5, DType::kBf16);
  copy_elements(full({1, 1, 1, 1}, -std::numeric_limits<double>::infinity()),
                slice(slice(c.k, 1, 3, 4), 3, 0, 1));
  const Tensor grad_v = run_on(emulated_unit(), c)[4];
  EXPECT_THAT(slice(grad_v, 1, 3, 4).to_vector<double>(), Each(0));
  EXPECT_FALSE(std::isnan(sum(grad_v).item()));
}

// Pairs of one row and one column, multiplied by the emulated unit.
float emulated_dot(const std::vector<float>& a, const std::vector<float>& b, float sum) {
  BFloat16 rows[16][32] = {};
  BFloat16 columns[16][32] = {};  // a pair of each column
  float sums[16][16] = {{sum}};
  for (std::size_t k = 0; k < a.size(); ++k) {
    rows[0][k].bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(a[k]) >> 16);
    columns[k / 2][k % 2].bits =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(b[k]) >> 16);
  }
  emulated_unit().multiply({.a = reinterpret_cast<const char*>(rows),
                            .a_row = 64,
                            .b = reinterpret_cast<const char*>(columns),
                            .b_row = 64,
                            .sums = reinterpret_cast<char*>(sums),
                            .sums_row = 64,
                            .row_tiles = 1,
                            .term_tiles = 1,
                            .column_tiles = 1,
                            .adds = true});
  return sums[0][0];
}

TEST(EmulatedTiles, HaveTheArithmeticOfTheInstruction) {
  EXPECT_EQ(emulated_dot({2, 3}, {5, 7}, 1), 32);
  // First and second numbers of pairs are added apart: in one sum, 2^24 + 1 would be 2^24.
  EXPECT_EQ(emulated_dot({0x1p24F, 1, -0x1p24F, 0}, {1, 1, 1, 1}, 0), 1);
  // They are added to each other before they are added to the sum.
  EXPECT_EQ(emulated_dot({1, 1}, {1, 1}, 0x1p24F), 0x1p24F + 2);
  // A product is not rounded before it is added.
  EXPECT_EQ(emulated_dot({-1, 0, 1.0078125F, 0}, {1, 0, 1.0078125F, 0}, 0), 0x1p-6F + 0x1p-14F);
  // Subnormals are 0: as a factor, as a product and as the sum so far.
  EXPECT_EQ(emulated_dot({0x1p-130F, 0}, {0x1p100F, 0}, 0), 0);
  EXPECT_EQ(emulated_dot({0x1p-70F, 0}, {0x1p-70F, 0}, 0), 0);
  EXPECT_EQ(emulated_dot({0, 0}, {0, 0}, 0x1p-130F), 0);
}

TEST(AttentionChoice, TakesTheFasterUnit) {
  const char* want = "cpu_attention";
  if (has_fast_bf16_dot()) want = "cpu_attention_dots";
  if (kernels::has_tiles()) want = "cpu_attention_tiles";
  const test::SeeKernel seen("attention");
  const Tensor x = random_tensor({1, 1, 4, 8}, 1, DType::kBf16).set_requires_grad(true);
  const Tensor y = attention(x, x, x);
  EXPECT_EQ(seen.kernel, want);
  y.backward(ones(y.shape(), DType::kBf16));
  EXPECT_EQ(seen.kernel, want);
  const Tensor wide = x.detach().astype(DType::kF32);
  attention(wide, wide, wide);
  EXPECT_EQ(seen.kernel, "cpu_attention");
}

}  // namespace
}  // namespace mezzo
