#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/graph/pass_texts.h"

namespace mezzo::graph {
namespace {

// Statistics stay f32, and so do other inputs that are not operands.
TEST(FuseCasts, ANormBetweenProducts) {
  expect_pass(kFuseCasts, R"(program(x: bf16[4, 8], w: bf16[8, 8], s: f32[8]) {
  %0: bf16[4, 8] = linear(x, w, _)
  %1: f32[4, 8] = cast(%0) {dtype=f32}
  %2: f32[4, 8], %3: f32[8], %4: f32[8] = batch_norm(%1, s, _, _, _) {training=true relu=true eps=1e-05}
  host track(%3, %4)
  %5: bf16[4, 8] = cast(%2) {dtype=bf16}
  %6: bf16[4, 8] = linear(%5, w, _)
  return %6
}
)",
              1, R"(program(x: bf16[4, 8], w: bf16[8, 8], s: f32[8]) {
  %0: bf16[4, 8] = linear(x, w, _)
  %1: f32[4, 8] = cast(%0) {dtype=f32}
  %2: bf16[4, 8], %3: f32[8], %4: f32[8] = batch_norm(%0, s, _, _, _) {training=true relu=true eps=1e-05}
  host track(%3, %4)
  %5: bf16[4, 8] = linear(%2, w, _)
  return %5
}
)");
}

// The second call's casts are those of the first one's result.
TEST(FuseCasts, OneCallBehindAnother) {
  expect_pass(kFuseCasts, R"(program(x: f16[4, 8], y: f16[4, 8]) {
  %0: f32[4, 8] = cast(x) {dtype=f32}
  %1: f32[4, 8] = cast(y) {dtype=f32}
  %2: f32[4, 8] = add(%0, %1) over(%0)
  %3: f16[4, 8] = cast(%2) {dtype=f16}
  %4: f32[4, 8] = cast(%3) {dtype=f32}
  %5: f32[4, 8] = relu(%4) over(%4)
  %6: f16[4, 8] = cast(%5) {dtype=f16}
  return %6
}
)",
              2, R"(program(x: f16[4, 8], y: f16[4, 8]) {
  %0: f32[4, 8] = cast(x) {dtype=f32}
  %1: f32[4, 8] = cast(y) {dtype=f32}
  %2: f16[4, 8] = add(x, y)
  %3: f32[4, 8] = cast(%2) {dtype=f32}
  %4: f16[4, 8] = relu(%2) over(%2)
  return %4
}
)");
}

// The call has more inputs than a mask has bits.
TEST(FuseCasts, ACallOfManyOperands) {
  constexpr int kCount = 40;
  std::string casts;
  std::string wide;
  std::string narrow;
  for (int i = 0; i < kCount; ++i) {
    casts += concat("  %", i, ": f32[4] = cast(x) {dtype=f32}\n");
    wide += concat(i > 0 ? ", " : "", "%", i);
    narrow += i > 0 ? ", x" : "x";
  }
  const std::string begin = "program(x: bf16[4]) {\n" + casts;
  expect_pass(kFuseCasts,
              begin + "  %40: f32[160] = cat(" + wide +
                  ") {axis=0}\n"
                  "  %41: bf16[160] = cast(%40) {dtype=bf16}\n  return %41\n}\n",
              1, begin + "  %40: bf16[160] = cat(" + narrow + ") {axis=0}\n  return %40\n}\n");
}

TEST(FuseCasts, NotIfTheF32ResultIsRead) {
  expect_no_change(kFuseCasts, R"(program(x: bf16[4, 8]) {
  %0: f32[4, 8] = cast(x) {dtype=f32}
  %1: f32[4, 8] = exp(%0)
  %2: bf16[4, 8] = cast(%1) {dtype=bf16}
  %3: f32[4, 8] = log(%1)
  %4: f32[4, 8] = exp(%0)
  %5: bf16[4, 8] = cast(%4) {dtype=bf16}
  host look(%4)
  return %2, %3, %5
}
)");
  expect_no_change(kFuseCasts, R"(program(x: bf16[4, 8]) {
  %0: f32[4, 8] = cast(x) {dtype=f32}
  %1: f32[4, 8] = exp(%0)
  %2: bf16[4, 8] = cast(%1) {dtype=bf16}
  return %1, %2
}
)");
}

TEST(FuseCasts, NotForOneOfTwoOperandsNorForTwoDTypes) {
  expect_no_change(kFuseCasts, R"(program(x: bf16[4, 8], y: f32[4, 8], z: f16[4, 8]) {
  %0: f32[4, 8] = cast(x) {dtype=f32}
  %1: f32[4, 8] = cast(z) {dtype=f32}
  %2: f32[4, 8] = add(%0, y)
  %3: bf16[4, 8] = cast(%2) {dtype=bf16}
  %4: f32[4, 8] = add(%0, %1)
  %5: bf16[4, 8] = cast(%4) {dtype=bf16}
  %6: f32[4, 8] = exp(%0)
  %7: f16[4, 8] = cast(%6) {dtype=f16}
  return %3, %5, %7
}
)");
}

TEST(FuseCasts, NotForProductsAndNotAcrossHostWorkThatMayChangeWhatIsRead) {
  expect_no_change(kFuseCasts, R"(program(x: bf16[4, 8], w: f32[8, 8]) {
  %0: f32[4, 8] = cast(x) {dtype=f32}
  %1: bf16[8, 8] = cast(w) {dtype=bf16}
  %2: f32[8, 8] = cast(%1) {dtype=f32}
  %3: f32[4, 8] = linear(%0, %2, _)
  %4: bf16[4, 8] = cast(%3) {dtype=bf16}
  return %4
}
)");
  expect_no_change(kFuseCasts, R"(program() {
  state w: bf16[8, 8]
  %0: f32[8, 8] = cast(w) {dtype=f32}
  host update()
  %1: f32[8, 8] = exp(%0)
  %2: bf16[8, 8] = cast(%1) {dtype=bf16}
  return %2
}
)");
}

// The f32 copy may no longer equal the value from which it was cast.
TEST(FuseCasts, NotIfHostWorkMayChangeTheCopy) {
  expect_no_change(kFuseCasts, R"(program(x: bf16[4, 8]) {
  %0: f32[4, 8] = cast(x) {dtype=f32}
  host scale(%0)
  %1: f32[4, 8] = exp(%0)
  %2: bf16[4, 8] = cast(%1) {dtype=bf16}
  return %2
}
)");
}

// A training at level O1, where matrix products have 16 bits and everything else is f32.
std::vector<double> train(const CompileOptions* options, std::size_t* casts) {
  Generator generator(3);
  const Tensor first = randn({16, 16}, generator).set_requires_grad(true);
  const Tensor second = randn({16, 16}, generator).set_requires_grad(true);
  const Step body = [&](std::span<const Tensor> in) {
    Tensor loss;
    {
      const amp::Autocast region(amp::Policy{.level = amp::Level::kO1, .lower = DType::kBf16});
      const Tensor hidden = batch_norm(matmul(in[0], first), {}, {}, {.relu = true}).y;
      loss = mean(matmul(hidden, second).astype(DType::kF32));
    }
    loss.backward();
    std::vector<Tensor> results{loss, first.grad(), second.grad()};
    first.clear_grad();
    second.clear_grad();
    return results;
  };
  const Tensor x = randn({32, 16}, generator);
  std::vector<Tensor> results;
  if (options != nullptr) {
    CompiledStep step = compile(body, *options);
    results = step({&x, 1});
    *casts = count_casts(step.latest()->program());
  } else {
    results = body({&x, 1});
  }
  std::vector<double> numbers;
  for (const Tensor& tensor : results) {
    for (const double number : tensor.to_vector<double>()) numbers.push_back(number);
  }
  return numbers;
}

TEST(FuseCasts, TrainingKeepsItsBits) {
  const CompileOptions fused{.passes = {.disabled = {"recompute_casts"}}};
  const CompileOptions plain{.passes = {.disabled = {"recompute_casts", "fuse_casts"}}};
  std::size_t casts = 0;
  std::size_t casts_before = 0;
  const std::vector<double> expected = train(nullptr, nullptr);
  EXPECT_TRUE(train(&plain, &casts_before) == expected);
  EXPECT_TRUE(train(&fused, &casts) == expected);
  // The cast after the norm is fused. The norm's gradient still reads x in f32, beside a gradient
  // without a cast.
  EXPECT_EQ(casts + 1, casts_before);
}

}  // namespace
}  // namespace mezzo::graph
