// Tests that updates write the 16-bit copies of parameters that casts share.
#include <functional>
#include <memory>
#include <string_view>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// Counts how many times kernels cast while it exists.
class CastCount final : public KernelListener {
 public:
  int count = 0;

 private:
  void on_run(const KernelWork& work, double /*ms*/) override {
    count += std::string_view(work.op) == "cast" ? 1 : 0;
  }
  ListenToKernels listening_{*this};
};

// More than one piece of the update, and a partial vector.
constexpr std::int64_t kCount = 2500;

Tensor parameter_of(const std::vector<float>& values) {
  return from_values(values, {static_cast<std::int64_t>(values.size())}).set_requires_grad(true);
}

std::vector<float> ramp(float first, float step) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>(i);
  return values;
}

void set_grad_of(const Tensor& param, float value) { param.set_grad(full(param.shape(), value)); }

// The elements of the shared copy, read as a kernel does.
std::vector<float> read_copy(const Tensor& param, DType dtype) {
  return cast(cast(param, dtype).detach(), DType::kF32).to_vector<float>();
}

// The result of casting a tensor that is not a parameter.
std::vector<float> fresh_copy(const Tensor& param, DType dtype) {
  const Tensor same = empty(param.shape());
  copy_elements(param.detach(), same);
  return cast(cast(same, dtype), DType::kF32).to_vector<float>();
}

using MakeForList = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;
const MakeForList kMakeSgd = [](const std::vector<Tensor>& params) {
  return std::make_unique<Sgd>(params, SgdOptions{.lr = 0.1, .momentum = 0.9});
};
const MakeForList kMakeAdam = [](const std::vector<Tensor>& params) {
  return std::make_unique<Adam>(params, AdamOptions{.lr = 0.1});
};

// The number of kernel casts when the parameter's copy is requested.
int casts_for(const Tensor& param, DType dtype) {
  const CastCount casts;
  cast(param, dtype).address();
  return casts.count;
}

void expect_renewed(Optimizer& optimizer, const Tensor& param, DType dtype) {
  read_copy(param, dtype);
  for (int step = 0; step < 3; ++step) {
    set_grad_of(param, 0.37F);
    optimizer.step();
    EXPECT_EQ(casts_for(param, dtype), 0) << name_of(dtype);
    EXPECT_TRUE(read_copy(param, dtype) == fresh_copy(param, dtype))
        << name_of(dtype) << " step " << step;
  }
}

TEST(RenewedCopy, HoldsTheRoundedParametersWithoutACast) {
  for (const MakeForList& make : {kMakeSgd, kMakeAdam}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      const Tensor param = parameter_of(ramp(-3, 0.00317F));
      expect_renewed(*make({param}), param, dtype);
    }
  }
}

TEST(RenewedCopy, RoundsAsACastDoesAtTheEdges) {
  const std::vector<float> edges{0.0F,  -0.0F, 65519.9F, 65520.0F,    -1e30F,      3.4e38F, 1e-40F,
                                 6e-8F, 2e-8F, 2049.0F,  1.00390625F, 1.01171875F, 2051.0F};
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor param = parameter_of(edges);
    Sgd sgd({param}, {.lr = 0.5});
    read_copy(param, dtype);
    set_grad_of(param, 0);
    sgd.step();
    EXPECT_TRUE(read_copy(param, dtype) == fresh_copy(param, dtype)) << name_of(dtype);
  }
}

TEST(RenewedCopy, WhatSomebodyHoldsStaysAsItWas) {
  const Tensor param = parameter_of(ramp(1, 0.01F));
  Sgd sgd({param}, {.lr = 1});
  const Tensor held = cast(param, DType::kBf16).detach();
  const std::vector<float> before = cast(held, DType::kF32).to_vector<float>();
  set_grad_of(param, 1);
  sgd.step();
  EXPECT_TRUE(cast(held, DType::kF32).to_vector<float>() == before);
  EXPECT_TRUE(read_copy(param, DType::kBf16) == fresh_copy(param, DType::kBf16));
}

// Even if nobody has read it yet, whoever changes the parameter.
TEST(RenewedCopy, WhatSomebodyHoldsIsFilledBeforeTheParameterChanges) {
  const Tensor param = parameter_of(ramp(1, 0.01F));
  Sgd sgd({param}, {.lr = 1});
  const std::function<void()> changes[] = {
      [&] { sgd.step(); },
      [&] { fill(param.detach(), 3); },
      [&] { copy_elements(full({kCount}, 4), param.detach()); },
      [&] { param.mutable_data<float>()[0] = 5; },
      [&] { add_into(param.detach(), full({kCount}, 6)); },
  };
  for (const auto& change : changes) {
    set_grad_of(param, 1);
    const std::vector<float> before = fresh_copy(param, DType::kF16);
    const Tensor held = param.astype(DType::kF16);
    const Tensor detached = param.astype(DType::kBf16).detach();
    const std::vector<float> rounded = fresh_copy(param, DType::kBf16);
    change();
    EXPECT_TRUE(held.to_vector<float>() == before);
    EXPECT_TRUE(detached.to_vector<float>() == rounded);
    EXPECT_TRUE(read_copy(param, DType::kF16) == fresh_copy(param, DType::kF16));
  }
}

// A loss's history does not hold the copy, though it outlives the update.
TEST(RenewedCopy, ALossThatIsKeptHoldsNone) {
  const Tensor weight = full({64, 64}, 0.01).set_requires_grad(true);
  Sgd sgd({weight}, {.lr = 0.1});
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor loss = sum(matmul(full({64, 64}, 1, dtype), weight.astype(dtype)));
    loss.backward();
    const CastCount casts;
    sgd.step();
    EXPECT_EQ(casts.count, 0) << name_of(dtype);
    sgd.zero_grad();
  }
}

TEST(RenewedCopy, IsGivenUpOnceNobodyAsksForIt) {
  const Tensor param = parameter_of(ramp(1, 0.01F));
  Sgd sgd({param}, {.lr = 1});
  EXPECT_FALSE(RenewedCopy::find(param)) << "nobody has asked yet";
  cast(param, DType::kBf16);
  EXPECT_FALSE(RenewedCopy::find(param)) << "nobody has read it";
  read_copy(param, DType::kBf16);
  EXPECT_TRUE(RenewedCopy::find(param));
  set_grad_of(param, 1);
  sgd.step();
  EXPECT_FALSE(RenewedCopy::find(param)) << "renewed, and not asked for since";
  read_copy(param, DType::kBf16);
  EXPECT_TRUE(RenewedCopy::find(param));
}

TEST(RenewedCopy, ChangesByOthersMakeItStale) {
  const Tensor param = parameter_of(ramp(1, 0.01F));
  Sgd sgd({param}, {.lr = 1});
  read_copy(param, DType::kBf16);
  set_grad_of(param, 1);
  sgd.step();
  fill(param.detach(), 5);
  EXPECT_TRUE(read_copy(param, DType::kBf16) == fresh_copy(param, DType::kBf16));
}

// A change of one parameter counts as a change of all that share the block.
TEST(RenewedCopy, ParametersMayShareABlock) {
  const Tensor block = from_values(ramp(-1, 0.001F), {kCount});
  const Tensor first = slice(block, 0, 0, 1000).detach().set_requires_grad(true);
  const Tensor second = slice(block, 0, 1000, kCount).detach().set_requires_grad(true);
  Sgd sgd({first, second}, {.lr = 0.1});
  for (const Tensor& param : {first, second}) {
    read_copy(param, DType::kBf16);
    set_grad_of(param, 0.7F);
  }
  sgd.step();
  EXPECT_EQ(casts_for(first, DType::kBf16) + casts_for(second, DType::kBf16), 0);
  EXPECT_TRUE(read_copy(first, DType::kBf16) == fresh_copy(first, DType::kBf16));
  EXPECT_TRUE(read_copy(second, DType::kBf16) == fresh_copy(second, DType::kBf16));
}

// Even if both begin at the same element.
TEST(RenewedCopy, OfAPartIsNotThatOfTheWhole) {
  const Tensor block = from_values(ramp(-1, 0.001F), {kCount});
  const Tensor part = slice(block, 0, 0, 1000).detach().set_requires_grad(true);
  const Tensor whole = alias(block, {kCount}, {1}, 0).set_requires_grad(true);
  read_copy(part, DType::kBf16);
  EXPECT_FALSE(RenewedCopy::find(whole));
  Sgd sgd({whole}, {.lr = 0.1});
  set_grad_of(whole, 0.7F);
  sgd.step();
  EXPECT_TRUE(read_copy(part, DType::kBf16) == fresh_copy(part, DType::kBf16));
  EXPECT_TRUE(read_copy(whole, DType::kBf16) == fresh_copy(whole, DType::kBf16));
}

}  // namespace
}  // namespace mezzo::optim
