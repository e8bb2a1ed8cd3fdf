// Tests the messages for a device that has failed or cannot be used.
#include <cstdlib>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/tensor.h"
#include "tests/emulated_card/queue.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Failure, AKernelThatFailedIsNoWantOfMemory) {
  const auto take = [](std::int64_t count) {
    empty({count}, DType::kF32, Format::kContiguous, kCard);
  };
  take(1);  // creates the thread's stream
  emulated_card::set_failure(cudaErrorIllegalAddress);
  const std::string message = message_of<DeviceError>([&] { take(1 << 20); });
  emulated_card::set_failure(cudaSuccess);
  EXPECT_THAT(message, AllOf(HasSubstr("cudaMalloc failed: cudaErrorIllegalAddress"),
                             Not(HasSubstr("out of memory"))));
}

// Also run with an older driver, and with none: see CMakeLists.txt.
TEST(NoCard, IsExplained) {
  const char* driver = std::getenv("MEZZO_EMULATED_CARD_DRIVER");  // NOLINT(concurrency-mt-unsafe)
  if (driver == nullptr) GTEST_SKIP() << "there is a card";
  const std::string expected =
      std::atoi(driver) == 0 ? "there is no cuda: no NVIDIA driver is installed. Use cpu"
                             : "the NVIDIA driver is for CUDA 11.4 at most, and this build for";
  EXPECT_THAT(message_of<UnsupportedError>([] { zeros({2}).to(kCard); }), HasSubstr(expected));
}

}  // namespace
}  // namespace mezzo
