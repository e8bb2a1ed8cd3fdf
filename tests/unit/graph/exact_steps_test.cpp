// Tests that captured steps keep the direct sums that they were captured with.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/cpu.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/executable.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/ops/support.h"

namespace mezzo::graph {
namespace {

using Given = std::span<const Tensor>;

// The number of convolutions that Winograd's method has computed.
class CountWinograd final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double) override {
    count += static_cast<int>(std::string_view(work.kernel) == "cpu_winograd");
  }
  int count = 0;

 private:
  ListenToKernels guard_{*this};
};

// A convolution with an activation, which is fused with it where no gradient is needed.
class ExactSteps : public testing::Test {
 protected:
  Tensor activated() const { return relu(conv2d(x, weight, Tensor(), {.padding = 1})); }
  Step inference() const {
    return [this](Given) {
      const NoGrad no_grad;
      return std::vector<Tensor>{activated()};
    };
  }
  Step training() const {
    return [this](Given) {
      const Tensor y = activated();
      const Tensor inputs[] = {x, weight};
      std::vector<Tensor> results = grad({&y, 1}, inputs, {&seed, 1});
      results.push_back(y);
      return results;
    };
  }

  const Tensor x = test::parameter({4, 64, 16, 16}, 1);
  const Tensor weight = test::parameter({64, 64, 3, 3}, 2);
  const Tensor seed = test::random_tensor({4, 64, 16, 16}, 3);
};

// The bits of the results, and how many convolutions were computed by Winograd's method.
struct Ran {
  std::vector<std::vector<float>> bits;
  int winograd = 0;
};

template <class Run>
Ran ran(const Run& run) {
  const CountWinograd count;
  Ran result;
  for (const Tensor& tensor : run()) result.bits.push_back(tensor.template to_vector<float>());
  result.winograd = count.count;
  return result;
}

TEST_F(ExactSteps, KeepThemInAProgram) {
  for (const Step& step : {inference(), training()}) {
    Program program;
    Ran eager;
    {
      const ExactSums exact;
      program = capture_improved(step, {}, {});
      eager = ran([&] { return step({}); });
    }
    EXPECT_NE(to_text(program).find("exact=true"), std::string::npos) << to_text(program);
    Executable executable(std::move(program));
    const Ran replayed = ran([&] { return executable.run({}); });
    EXPECT_EQ(replayed.winograd, 0);
    EXPECT_TRUE(replayed.bits == eager.bits);
  }
}

TEST_F(ExactSteps, AreCapturedAgainOnlyWhereTheyWereNotExact) {
  CompiledStep step = compile(training());
  const auto call = [&] { return step({}); };
  const int all = has_vectors() ? 3 : 0;
  EXPECT_EQ(ran(call).winograd, all);
  {
    const ExactSums exact;
    EXPECT_EQ(ran(call).winograd, 0) << "the program from before is not used";
    EXPECT_EQ(step.programs(), 2U);
    const ExactSums fastest(false);
    EXPECT_EQ(ran(call).winograd, all);
  }
  EXPECT_EQ(step.programs(), 2U);

  CompiledStep begun = compile(training());
  {
    const ExactSums exact;
    begun({});
  }
  EXPECT_EQ(ran([&] { return begun({}); }).winograd, 0);
  EXPECT_EQ(begun.programs(), 1U);
}

TEST_F(ExactSteps, AreReadBackFromText) {
  const ExactSums exact;
  const std::string text = to_text(capture(inference(), {}));
  EXPECT_NE(text.find("groups=1 exact=true"), std::string::npos) << text;
  EXPECT_EQ(to_text(parse_program(text)), text);
}

}  // namespace
}  // namespace mezzo::graph
