// Tests batch normalisations that are not yet computed when kernels read them. Kernels that
// normalise as they read give the same bits as for the result; other kernels have it computed.
#include <limits>
#include <vector>

#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_pixels.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/fusion/norm_statistics.h"
#include "mezzo/ops/pool.h"
#include "tests/unit/ops/support.h"
#include "tests/unit/pending_norm.h"

namespace mezzo {
namespace {

using test::Bits;
using test::bits_of;
using test::random_tensor;
using Unit = kernels::pixels::Unit;

struct NormCase {
  Shape x;
  bool relu = true;
  bool is_affine = true;
  bool adds = false;  // a residual
};

// The results include zeros of both signs and values that are not finite.
Tensor images(const Shape& shape, std::uint64_t seed, DType dtype) {
  const Tensor x = random_tensor(shape, seed);
  auto* numbers = x.mutable_data<float>();
  const float special[] = {0.0F, -0.0F, std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  for (std::int64_t i = 0; i < x.numel(); i += 13) numbers[i] = special[i / 13 % 5];
  return to_format(x.astype(dtype),
                   shape.rank() == 4 ? Format::kChannelsLast : Format::kContiguous);
}

PendingNorm norm_of(const NormCase& c, DType dtype) {
  const std::int64_t channels = c.x[1];
  const Tensor none;
  return {.x = images(c.x, 1, dtype),
          .weight = c.is_affine ? random_tensor({channels}, 2) : none,
          .bias = c.is_affine ? random_tensor({channels}, 3) : none,
          .mean = random_tensor({channels}, 4),
          .var = full({channels}, 0.75),
          .residual = c.adds ? images(c.x, 6, dtype) : none,
          .attrs = {.training = false, .relu = c.relu || c.adds}};
}

// Expects that read() gives the same bits for a pending norm as for its result. The norm is
// computed on the way unless the reader normalises.
template <class Read>
void expect_read(const NormCase& c, DType dtype, bool stays_pending, const Read& read) {
  SCOPED_TRACE(concat(c.x, " ", dtype, c.relu ? " relu" : "", c.adds ? " adds" : ""));
  const Tensor filled = make_pending_norm(norm_of(c, dtype));
  filled.raw_data();
  const Tensor pending = make_pending_norm(norm_of(c, dtype));
  ASSERT_EQ(pending_norm_of(filled), nullptr);
  EXPECT_TRUE(bits_of(read(pending)) == bits_of(read(filled)));
  EXPECT_EQ(pending_norm_of(pending) != nullptr, stays_pending);
}

class NormByReaders : public test::NormAgainTest {
  NoGrad no_grad_;
};

INSTANTIATE_TEST_SUITE_P(DTypes, NormByReaders, testing::Values(DType::kBf16, DType::kF16),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// Whole vectors of channels and partial ones. Windows that overlap, touch or leave pixels out, and
// windows that reach beyond the image.
TEST_P(NormByReaders, IsReadByMaxPooling) {
  const std::vector<Pool2dOptions> pools{{},
                                         {.kernel = 3, .stride = Size2d(2), .padding = 1},
                                         {.kernel = 3, .stride = Size2d(1), .padding = 1},
                                         {.kernel = 2, .stride = Size2d(3)},
                                         {.kernel = {4, 1}, .stride = Size2d(1, 2)}};
  std::vector<NormCase> cases;
  for (const std::int64_t channels : {1, 3, 16, 40, 64, 83}) {
    cases.push_back({{3, channels, 9, 11}, true, channels != 40});
    cases.push_back({{3, channels, 9, 11}, false, channels != 40});
  }
  for (const Pool2dOptions& pool : pools) {
    for (const NormCase& c : cases) {
      expect_read(c, GetParam(), true, [&](const Tensor& y) { return max_pool2d(y, pool); });
    }
  }
}

TEST_P(NormByReaders, IsReadAsAResidual) {
  for (const Shape& shape :
       {Shape{3, 17, 6, 5}, Shape{2, 64, 7, 7}, Shape{4, 3, 5, 5}, Shape{9, 33}}) {
    const Tensor x = images(shape, 7, GetParam());
    const auto read = [&](const Tensor& y) {
      return batch_norm(x, {}, {}, {.relu = true, .residual = y}).y;
    };
    expect_read({shape, true}, GetParam(), true, read);
    expect_read({shape, false, false}, GetParam(), true, read);
    expect_read({shape, true, true, /*adds=*/true}, GetParam(), false, read);
  }
}

TEST_P(NormByReaders, IsComputedForOthers) {
  const Tensor kernel = random_tensor({32, 32, 3, 3}, 8, GetParam());
  const NormCase plain{{2, 32, 6, 5}};
  expect_read(plain, GetParam(), false,
              [&](const Tensor& y) { return conv2d(y, kernel, {}, {.padding = 1}); });
  expect_read(plain, GetParam(), false,
              [](const Tensor& y) { return avg_pool2d(y, {.kernel = 2}); });
  NormCase adds = plain;
  adds.adds = true;
  expect_read(adds, GetParam(), false,
              [](const Tensor& y) { return max_pool2d(y, {.kernel = 2}); });
}

// A training norm that leaves its result to its readers computes the same statistics.
TEST_P(NormByReaders, FindsStatisticsWithoutAResult) {
  const Tensor x = random_tensor({5, 33, 7, 6}, 1, GetParam());
  const BatchNormResult whole = batch_norm(x, {}, {}, {.training = true});
  const Tensor none;
  std::vector<Tensor> outputs{none, empty({33}), empty({33})};
  outputs[0] = make_pending_norm({.x = x, .mean = outputs[1], .var = outputs[2]});
  const std::vector<const Tensor*> inputs{&x, &none, &none, &none, &none};
  run_kernel(*find_op("batch_norm"), inputs, outputs, BatchNormAttrs{.training = true});
  EXPECT_TRUE(bits_of(outputs[1]) == bits_of(whole.mean));
  EXPECT_TRUE(bits_of(outputs[2]) == bits_of(whole.var));
  const Tensor y = make_pending_norm({.x = x, .mean = outputs[1], .var = outputs[2]});
  EXPECT_FALSE(outputs[0].storage()->is_materialized());
  EXPECT_TRUE(bits_of(y) == bits_of(whole.y));
}

struct PixelCase {
  Shape x;
  std::int64_t out_channels;
  bool stays_pending = true;
  Size2d stride = 1;
};

class NormByPixels : public testing::TestWithParam<Unit> {
 protected:
  void SetUp() override {
    if (!kernels::has_tiles() && GetParam() == Unit::kTiles) GTEST_SKIP() << "this CPU has no AMX";
    if (!has_fast_bf16()) GTEST_SKIP() << "this CPU multiplies bf16 no faster than f32";
  }

  static Tensor convolved(const Tensor& y, const PixelCase& c, NormStatistics* found) {
    const Tensor weight = random_tensor({c.out_channels, c.x[1], 1, 1}, 8, DType::kBf16);
    Tensor out = empty({y.size(0), c.out_channels, (y.size(2) - 1) / c.stride.h + 1,
                        (y.size(3) - 1) / c.stride.w + 1},
                       DType::kBf16, Format::kChannelsLast);
    const Tensor none;
    const std::vector<const Tensor*> inputs{&y, &weight, &none};
    const FindStatistics find(found);
    kernels::conv::run_pixels({inputs, {&out, 1}, Conv2dAttrs{.stride = c.stride}}, GetParam());
    return out;
  }

  NoGrad no_grad_;
};

INSTANTIATE_TEST_SUITE_P(Units, NormByPixels, testing::Values(Unit::kTiles, Unit::kDots),
                         [](const auto& unit) {
                           return unit.param == Unit::kTiles ? "Tiles" : "Dots";
                         });

// Whole strips and partial ones. So much weight that it is read in parts, and rows would be
// normalised for each. Pixels with a stride.
std::vector<PixelCase> pixel_cases() {
  return {{{2, 64, 7, 9}, 256},          {{1, 32, 5, 3}, 64},
          {{3, 96, 11, 6}, 288},         {{5, 64, 9, 33}, 512},
          {{2, 320, 4, 4}, 1152, false}, {{3, 64, 9, 14}, 256, true, {2, 3}}};
}

TEST_P(NormByPixels, IsReadByConvolutionsOfOnePixel) {
  for (const PixelCase& c : pixel_cases()) {
    const auto read = [&](const Tensor& y) { return convolved(y, c, nullptr); };
    expect_read({c.x, true}, DType::kBf16, c.stays_pending, read);
    expect_read({c.x, false}, DType::kBf16, c.stays_pending, read);
    expect_read({c.x, true, true, /*adds=*/true}, DType::kBf16, false, read);
  }
}

TEST_P(NormByPixels, TheResultsStatisticsAreTheSame) {
  for (const PixelCase& c : pixel_cases()) {
    std::vector<Bits> statistics;
    expect_read({c.x}, DType::kBf16, c.stays_pending, [&](const Tensor& y) {
      NormStatistics found;
      const Tensor z = convolved(y, c, &found);
      statistics.push_back(bits_of(found.mean));
      statistics.push_back(bits_of(found.var));
      return z;
    });
    EXPECT_TRUE(statistics[0] == statistics[2] && statistics[1] == statistics[3]) << concat(c.x);
  }
}

}  // namespace
}  // namespace mezzo
