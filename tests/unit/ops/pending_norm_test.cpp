// Tests batch-norm results that are recomputed in the backward pass: when this must not happen, and
// that it is invisible when it does.
#include "tests/unit/pending_norm.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/fusion/pending_norm.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::Bits;
using test::expect_as_kept;
using test::is_given_up;

const Shape kImages{3, 17, 6, 5};

// A normalisation with the operations before and after it.
struct Parts {
  DType dtype;
  Tensor x = test::parameter(kImages, 1, dtype);
  Tensor side = test::parameter(kImages, 2, dtype);
  Tensor weight = test::parameter({17}, 3);
  Tensor bias = test::parameter({17}, 4);
  Tensor kernel = test::parameter({9, 17, 3, 3}, 5, dtype);
  Tensor other_kernel = test::parameter({10, 17, 1, 1}, 6, dtype);

  explicit Parts(DType type) : dtype(type) {}

  std::vector<Tensor> leaves() const { return {x, side, weight, bias, kernel, other_kernel}; }
  std::vector<Bits> grads() const { return test::grads_of(leaves()); }

  Tensor images() const { return affine(x, 1.5, 0.25); }
  Tensor residual() const { return affine(side, 2, 0.5); }
  // Without a residual the result can always be recomputed, with one if the residual is kept.
  Tensor norm(const Tensor& from, const Tensor& residual = {}) const {
    return batch_norm(from, weight, bias, {.relu = true, .residual = residual}).y;
  }
  Tensor norm() const { return norm(images()); }
  Tensor conv(const Tensor& y) const { return conv2d(y, kernel, {}, {.padding = 1}); }
  Tensor other_conv(const Tensor& y) const { return conv2d(y, other_kernel); }
};

// A scalar to which every element contributes differently.
Tensor loss_of(const Tensor& z, std::uint64_t seed = 7) {
  return sum(z * test::random_tensor(z.shape(), seed, z.dtype()), {}, false, DType::kF32);
}

// A residual that a product keeps for its gradient, and the loss of that product.
struct KeptResidual {
  explicit KeptResidual(const Parts& parts)
      : residual(parts.residual()), loss(loss_of(residual * residual, 8)) {}
  Tensor residual;
  Tensor loss;
};

void change(const Tensor& tensor) {
  const NoGrad guard;
  add_into(tensor, full(tensor.shape(), 0.5, tensor.dtype()));
}

using PendingNorm = test::NormAgainTest;

TEST_P(PendingNorm, ChangesNoBit) {
  expect_as_kept([&] {
    const Parts parts(GetParam());
    const Tensor z = parts.conv(parts.norm());
    loss_of(z).backward();
    return parts.grads();
  });
  expect_as_kept([&] {
    const Parts parts(GetParam());
    const KeptResidual kept(parts);
    const Tensor z = parts.conv(parts.norm(parts.images(), kept.residual));
    (loss_of(z) + kept.loss).backward();
    return parts.grads();
  });
}

TEST_P(PendingNorm, IsForResultsInTrainingIn16Bits) {
  const Parts parts(GetParam());
  EXPECT_TRUE(is_given_up(parts.conv(parts.norm())));
  EXPECT_TRUE(is_given_up(parts.other_conv(parts.norm())));
  // Without weight and bias, and without ReLU.
  EXPECT_TRUE(is_given_up(parts.conv(batch_norm(parts.images(), {}, {}).y)));
  const Parts wide(DType::kF32);
  EXPECT_FALSE(is_given_up(wide.conv(wide.norm())));
  const BatchNormOptions inference{
      .training = false, .relu = true, .running_mean = zeros({17}), .running_var = ones({17})};
  const Tensor y = batch_norm(parts.images(), parts.weight, parts.bias, inference).y;
  EXPECT_FALSE(is_given_up(parts.conv(y)));
  const test::Without guard("cpu_norm_recompute");
  EXPECT_FALSE(is_given_up(parts.conv(parts.norm())));
}

TEST_P(PendingNorm, NeedsAResidualThatIsKept) {
  const Parts parts(GetParam());
  EXPECT_FALSE(is_given_up(parts.conv(parts.norm(parts.images(), parts.residual()))));
  EXPECT_FALSE(is_given_up(parts.conv(parts.norm(parts.images(), parts.side.detach()))));
  const KeptResidual kept(parts);
  EXPECT_TRUE(is_given_up(parts.conv(parts.norm(parts.images(), kept.residual))));
  // A convolution's result is not kept if it can itself be recomputed.
  const Tensor again = parts.norm();
  EXPECT_TRUE(is_given_up(parts.conv(again)));
  EXPECT_FALSE(is_given_up(parts.conv(parts.norm(parts.images(), again))));
}

TEST_P(PendingNorm, IsNotForViewsAndCasts) {
  const Parts parts(GetParam());
  const Tensor y = parts.norm();
  EXPECT_FALSE(is_given_up(parts.conv(reshape(flatten(y, 0, 1), kImages))));
  EXPECT_FALSE(is_given_up(parts.conv(slice(y, 0, 0, 2))));
  EXPECT_FALSE(is_given_up(parts.conv(cast(cast(y, DType::kF32), GetParam()))));
  EXPECT_FALSE(is_given_up(parts.conv(transpose(parts.norm()))));
  expect_as_kept([&] {
    const Parts fresh(GetParam());
    const Tensor result = fresh.norm();
    const Tensor flipped = fresh.conv(transpose(result));
    const Tensor part = fresh.conv(slice(result, 2, 1, 5));
    (loss_of(flipped) + loss_of(part) + loss_of(fresh.conv(result))).backward();
    return fresh.grads();
  });
}

TEST_P(PendingNorm, AChangedResultIsKept) {
  expect_as_kept([&] {
    const Parts parts(GetParam());
    const Tensor y = parts.norm();
    change(y);
    const Tensor z = parts.conv(y);
    EXPECT_FALSE(is_given_up(z));
    loss_of(z).backward();
    return parts.grads();
  });
}

// The backward pass recomputes the forward result. Without recomputation, the change is an error.
TEST_P(PendingNorm, AResultMayBeChangedBehindItsReaders) {
  const auto grads = [&](bool changes) {
    const Parts parts(GetParam());
    const Tensor y = parts.norm();
    const Tensor loss = loss_of(parts.conv(y));
    if (changes) change(y);
    loss.backward();
    return parts.grads();
  };
  EXPECT_TRUE(grads(true) == grads(false));
  const test::Without guard("cpu_norm_recompute");
  EXPECT_THAT(message_of<ArgumentError>([&] { grads(true); }),
              testing::HasSubstr("was changed in place"));
}

TEST_P(PendingNorm, WhatItIsComputedFromMustNotChange) {
  const auto message = [&](const auto& change_something) {
    const Parts parts(GetParam());
    const KeptResidual kept(parts);
    const Tensor x = parts.images();
    const Tensor y = parts.norm(x, kept.residual);
    const Tensor z = parts.conv(y);
    EXPECT_TRUE(is_given_up(z));
    change_something(parts, x, kept.residual);
    const Tensor loss = loss_of(z);
    return message_of<ArgumentError>([&] { grad({&loss, 1}, std::vector<Tensor>{parts.kernel}); });
  };
  const auto is_clear = testing::AllOf(testing::HasSubstr("[conv2d] input 0"),
                                       testing::HasSubstr("was changed in place"));
  EXPECT_THAT(message([](const Parts&, const Tensor& x, const Tensor&) { change(x); }), is_clear);
  EXPECT_THAT(
      message([](const Parts&, const Tensor&, const Tensor& residual) { change(residual); }),
      is_clear);
  EXPECT_THAT(message([](const Parts& p, const Tensor&, const Tensor&) { change(p.weight); }),
              is_clear);
  EXPECT_THAT(message([](const Parts& p, const Tensor&, const Tensor&) { change(p.bias); }),
              is_clear);
}

// The convolution has read the result before the change. The norm has kept its result and does not
// need the residual.
TEST_P(PendingNorm, IsNotComputedFromWhatHasChangedBeforeTheConvolution) {
  for (std::size_t changed = 0; changed < 6; ++changed) {
    expect_as_kept(
        [&] {
          const Parts parts(GetParam());
          const KeptResidual kept(parts);
          const Tensor x = parts.images();
          const BatchNormResult norm =
              batch_norm(x, parts.weight, parts.bias, {.relu = true, .residual = kept.residual});
          const Tensor places[] = {x, parts.weight, parts.bias, norm.mean, norm.var, kept.residual};
          change(places[changed]);
          const Tensor z = parts.conv(norm.y);
          EXPECT_FALSE(is_given_up(z));
          bool is_refused = false;
          try {
            loss_of(z).backward();
          } catch (const ArgumentError&) {
            is_refused = true;
          }
          EXPECT_EQ(is_refused, changed != 5);
          return parts.grads();
        },
        concat("changed: ", changed));
  }
}

TEST_P(PendingNorm, GraphsMayBeRetained) {
  const Parts parts(GetParam());
  const KeptResidual kept(parts);
  const Tensor z = parts.conv(parts.norm(parts.images(), kept.residual));
  const Tensor loss = loss_of(z) + loss_of(parts.other_conv(parts.norm())) + kept.loss;
  std::vector<std::vector<Bits>> grads;
  for (int pass = 0; pass < 3; ++pass) {
    for (const Tensor& leaf : parts.leaves()) leaf.clear_grad();
    loss.backward({}, pass < 2);
    grads.push_back(parts.grads());
  }
  EXPECT_TRUE(grads[1] == grads[0]);
  EXPECT_TRUE(grads[2] == grads[0]);
  EXPECT_THAT(message_of<ArgumentError>([&] { loss.backward(); }),
              testing::HasSubstr("Pass retain_graph = true"));
}

TEST_P(PendingNorm, GradientsOfSomeLeaves) {
  const Parts all(GetParam());
  for (std::size_t i = 0; i < all.leaves().size(); ++i) {
    expect_as_kept([&] {
      const Parts parts(GetParam());
      const KeptResidual kept(parts);
      const Tensor y = parts.norm(parts.images(), kept.residual);
      const Tensor loss = loss_of(parts.conv(y)) + loss_of(parts.other_conv(y)) + kept.loss;
      return test::bits_of(grad({&loss, 1}, std::vector<Tensor>{parts.leaves()[i]}));
    });
  }
  expect_as_kept([&] {
    const Parts parts(GetParam());
    const Tensor y = parts.norm();
    const Tensor loss = loss_of(parts.conv(y));
    return test::bits_of(grad({&loss, 1}, std::vector<Tensor>{y}));
  });
}

TEST_P(PendingNorm, GradientsOfGradients) {
  for (const bool has_residual : {false, true}) {
    expect_as_kept([&] {
      const Parts parts(GetParam());
      const KeptResidual kept(parts);
      const Tensor y = parts.norm(parts.images(), has_residual ? kept.residual : Tensor());
      const Tensor z = parts.conv(y);
      const Tensor loss = loss_of(z * z) + kept.loss;
      const std::vector<Tensor> first =
          grad({&loss, 1}, std::vector<Tensor>{parts.x, parts.kernel, parts.weight}, {},
               {.create_graph = true});
      Tensor penalty = loss_of(first[0]) + loss_of(first[1]) + loss_of(first[2]);
      penalty.backward();
      std::vector<Bits> bits = test::bits_of(first);
      for (Bits& more : parts.grads()) bits.push_back(std::move(more));
      return bits;
    });
  }
}

// In f16, sums of at most half the smallest value become 0, where the ReLU's gradient is 0.
TEST_P(PendingNorm, GradientsSeeTheSignsOfWhatWasRounded) {
  for (const bool create_graph : {false, true}) {
    expect_as_kept(
        [&] {
          const Parts parts(GetParam());
          const Tensor small = test::parameter(kImages, 2, GetParam());
          const Tensor residual = affine(small, 0x1p-24, 0);
          const Tensor kept = loss_of(residual * residual);
          const Tensor weight = full({17}, 0x1p-25).set_requires_grad(true);
          const Tensor y =
              batch_norm(parts.images(), weight, {}, {.relu = true, .residual = residual}).y;
          const Tensor z = parts.conv(y);
          EXPECT_TRUE(is_given_up(z) || is_kernel_disabled("cpu_norm_recompute"));
          const Tensor loss = loss_of(z) + kept;
          return test::bits_of(grad({&loss, 1}, std::vector<Tensor>{weight, residual, parts.x}, {},
                                    {.create_graph = create_graph}));
        },
        create_graph ? "create_graph" : "");
  }
}

TEST_P(PendingNorm, ManyMayReadAResult) {
  const auto run = [&](const auto& more) {
    expect_as_kept([&] {
      const Parts parts(GetParam());
      const KeptResidual kept(parts);
      const Tensor y = parts.norm(parts.images(), kept.residual);
      const Tensor before = more(parts, y);
      const Tensor z = parts.conv(y);
      const Tensor behind = more(parts, y);
      (loss_of(z) + before + behind + kept.loss).backward();
      return parts.grads();
    });
  };
  run([](const Parts& parts, const Tensor& y) { return loss_of(parts.other_conv(y)); });
  run([](const Parts&, const Tensor& y) { return loss_of(conv2d(y, y)); });
  run([](const Parts&, const Tensor& y) { return loss_of(y * y); });
  run([](const Parts& parts, const Tensor& y) {
    const Tensor matrix = test::random_tensor({17 * 30, 4}, 9, parts.dtype);
    return loss_of(matmul(flatten(y, 1), matrix));
  });
  run([](const Parts& parts, const Tensor& y) {
    return loss_of(parts.norm(y, y)) + loss_of(parts.norm(parts.images(), y));
  });
}

TEST_P(PendingNorm, AResultThatIsResidualToo) {
  expect_as_kept([&] {
    const Parts parts(GetParam());
    Tensor y = parts.norm();
    Tensor loss = loss_of(y);
    for (int i = 0; i < 4; ++i) {
      const Tensor z = conv2d(y, test::random_tensor({17, 17, 1, 1}, 9, parts.dtype));
      y = parts.norm(z, y);
      loss = loss + loss_of(parts.conv(y));
    }
    loss.backward();
    return parts.grads();
  });
}

// A backward pass has freed what the norm saved, and may overwrite what nobody else uses.
TEST_P(PendingNorm, OutlivesABackwardPassThroughTheNormAlone) {
  for (const bool has_residual : {false, true}) {
    expect_as_kept([&] {
      const Parts parts(GetParam());
      const KeptResidual kept(parts);
      // It has the gradient's layout, and nobody else uses it.
      const Tensor square = test::random_tensor({17, 17, 1, 1}, 9, parts.dtype);
      Tensor y =
          parts.norm(conv2d(parts.images(), square), has_residual ? kept.residual : Tensor());
      const Tensor first = loss_of(parts.other_conv(y)) + kept.loss;
      const Tensor second = loss_of(parts.conv(y));
      y = Tensor();
      first.backward();
      EXPECT_THAT(message_of<ArgumentError>([&] { second.backward(); }),
                  testing::HasSubstr("Pass retain_graph = true"));
      return parts.grads();
    });
  }
}

TEST_P(PendingNorm, AConvolutionRecordedBehindThatKeepsTheResult) {
  expect_as_kept([&] {
    const Parts parts(GetParam());
    const Tensor y = parts.norm();
    loss_of(parts.other_conv(y)).backward();
    const Tensor z = parts.conv(y);
    EXPECT_FALSE(is_given_up(z));
    EXPECT_THAT(message_of<ArgumentError>([&] { loss_of(z).backward(); }),
                testing::HasSubstr("Pass retain_graph = true"));
    return parts.grads();
  });
}

TEST_P(PendingNorm, TwoLossesOfOneNorm) {
  expect_as_kept([&] {
    const Parts parts(GetParam());
    const KeptResidual kept(parts);
    const Tensor y = parts.norm(parts.images(), kept.residual);
    const Tensor first = loss_of(y * y);
    first.backward({}, true);
    const Tensor second = loss_of(parts.conv(y)) + kept.loss;  // makes the norm give up its result
    first.backward({}, true);
    second.backward();
    return parts.grads();
  });
}

TEST_P(PendingNorm, IsFilledForOtherKernels) {
  expect_as_kept([&] {
    const Tensor x = test::parameter({2, 32, 12, 12}, 1, GetParam());
    const Tensor kernel = test::parameter({32, 32, 3, 3}, 2, GetParam());
    const Tensor grouped = test::parameter({32, 1, 3, 3}, 3, GetParam());
    const Tensor y = batch_norm(affine(x, 1, 0), {}, {}, {.relu = true}).y;
    Tensor loss = loss_of(conv2d(y, kernel, {}, {.padding = 1}));
    loss = loss + loss_of(conv2d(y, grouped, {}, {.padding = 1, .groups = 32}));
    loss.backward({}, true);  // the refilled result is read again
    loss.backward();
    return test::grads_of({x, kernel, grouped});
  });
}

// Calls each function with 0 to count - 1, on a thread of its own; all threads begin each number at
// the same time.
template <class... Work>
void run_abreast(std::size_t count, const Work&... works) {
  std::atomic<std::size_t> begun = 0;
  std::vector<std::thread> threads;
  const auto start = [&](const auto& work) {
    threads.emplace_back([&] {
      const test::Threads one(1);
      for (std::size_t i = 0; i < count; ++i) {
        ++begun;
        while (begun < (i + 1) * sizeof...(works)) std::this_thread::yield();
        work(i);
      }
    });
  };
  (start(works), ...);
  for (std::thread& thread : threads) thread.join();
}

// Small images, so that recording takes most of the time.
struct ManyNorms {
  static constexpr std::size_t kCount = 3000;

  explicit ManyNorms(DType dtype)
      : kernel(test::parameter({8, 8, 1, 1}, 1, dtype)),
        x(test::parameter({2, 8, 1, 1}, 2, dtype)),
        side(affine(test::parameter({2, 8, 1, 1}, 3, dtype), 1, 0.5)),
        kept(side * side) {
    for (std::size_t i = 0; i < kCount; ++i) {
      ys.push_back(batch_norm(affine(x, 1, 0), {}, {}, {.relu = true, .residual = side}).y);
    }
  }

  Tensor kernel, x, side, kept;
  std::vector<Tensor> ys;
};

// All threads make the same nodes give up what they saved.
TEST_P(PendingNorm, IsRecordedByManyThreads) {
  const ManyNorms norms(GetParam());
  std::vector<Tensor> first(ManyNorms::kCount);
  std::vector<Tensor> second(ManyNorms::kCount);
  run_abreast(
      ManyNorms::kCount, [&](std::size_t i) { first[i] = conv2d(norms.ys[i], norms.kernel); },
      [&](std::size_t i) { second[i] = conv2d(norms.ys[i], norms.kernel); });
  for (const auto* results : {&first, &second}) {
    for (const Tensor& result : *results) ASSERT_TRUE(is_given_up(result));
  }
}

TEST_P(PendingNorm, IsRecordedWhileABackwardPassRuns) {
  const auto grad_of_x = [&](bool convolves) {
    const ManyNorms norms(GetParam());
    const Tensor probe = test::random_tensor({2, 8, 1, 1}, 4, GetParam());
    const auto walk = [&](std::size_t i) { norms.ys[i].backward(probe); };
    std::vector<Tensor> results(ManyNorms::kCount);
    const auto convolve = [&](std::size_t i) {
      if (convolves) results[i] = conv2d(norms.ys[i], norms.kernel);
    };
    run_abreast(ManyNorms::kCount, walk, convolve);
    return test::bits_of(norms.x.grad());
  };
  EXPECT_TRUE(grad_of_x(true) == grad_of_x(false));
}

INSTANTIATE_TEST_SUITE_P(DTypes, PendingNorm, testing::Values(DType::kBf16, DType::kF16),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

}  // namespace
}  // namespace mezzo
