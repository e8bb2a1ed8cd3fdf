#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/allocation_label.h"
#include "mezzo/kernels/cuda/allocator.h"
#include "tests/unit/cuda/fake_card.h"
#include "tests/unit/message_of.h"

namespace mezzo::kernels::cuda {
namespace {

using testing::HasSubstr;

class CudaAllocatorTest : public testing::Test {
 protected:
  CudaAllocatorTest() { forget_card(); }
  ~CudaAllocatorTest() override {
    allocator_.trim();
    forget_card();
  }

  CudaAllocator allocator_{{DeviceType::kCuda, 0}, kFake};
};

TEST_F(CudaAllocatorTest, CountsLiveAndPeakBytes) {
  void* a = allocator_.allocate(1000, stream(1));
  void* b = allocator_.allocate(300, stream(1));
  EXPECT_EQ(allocator_.stats().live_bytes, 1024 + 512) << "counted in units of 256 bytes";
  allocator_.release(a, 1000, stream(1));
  EXPECT_EQ(allocator_.stats().live_bytes, 512);
  EXPECT_EQ(allocator_.stats().peak_bytes, 1024 + 512);
  allocator_.reset_peak();
  EXPECT_EQ(allocator_.stats().peak_bytes, 512);
  allocator_.release(b, 300, stream(1));
  EXPECT_EQ(allocator_.stats().live_bytes, 0);
  EXPECT_EQ(allocator_.allocate(0, stream(1)), nullptr);
}

TEST_F(CudaAllocatorTest, AStreamGetsItsOwnBlocksAgainAtOnce) {
  void* a = allocator_.allocate(5000, stream(1));
  allocator_.release(a, 5000, stream(1));
  EXPECT_EQ(allocator_.allocate(4900, stream(1)), a) << "of the same class";
  EXPECT_NE(allocator_.allocate(4900, stream(2)), a);
  EXPECT_EQ(fresh, 2);
  EXPECT_TRUE(ordered.empty());
}

TEST_F(CudaAllocatorTest, ABlockGivenBackByAnotherStreamMakesItsOwnWait) {
  void* a = allocator_.allocate(5000, stream(1));
  allocator_.release(a, 5000, stream(2));
  EXPECT_EQ(ordered, (std::vector<std::pair<cudaStream_t, cudaStream_t>>{{stream(1), stream(2)}}));
  EXPECT_EQ(allocator_.allocate(5000, stream(1)), a);
}

TEST_F(CudaAllocatorTest, GivesBackWhatIsCachedBeforeItFails) {
  void* a = allocator_.allocate(600'000, stream(1));
  allocator_.release(a, 600'000, stream(1));
  void* b = allocator_.allocate(800'000, stream(1));
  EXPECT_NE(b, nullptr);
  EXPECT_EQ(allocator_.stats().cached_bytes, 0);
}

TEST_F(CudaAllocatorTest, OnlyGiveUpGivesBackWhatIsKept) {
  void* a = allocator_.allocate(5000, stream(1));
  allocator_.keep(a);
  allocator_.release(a, 5000, stream(2));
  EXPECT_NE(allocator_.allocate(5000, stream(1)), a);
  EXPECT_TRUE(ordered.empty());
  allocator_.give_up(a);
  EXPECT_EQ(allocator_.allocate(5000, stream(1)), a);
}

TEST_F(CudaAllocatorTest, MayFailRatherThanGiveBackWhatIsCached) {
  void* a = allocator_.allocate(600'000, stream(1));
  allocator_.release(a, 600'000, stream(1));
  EXPECT_THROW(allocator_.allocate(800'000, stream(1), WhenFull::kFail), DeviceError);
  EXPECT_EQ(allocator_.allocate(600'000, stream(1), WhenFull::kFail), a);
}

TEST_F(CudaAllocatorTest, WithoutACacheBlocksAreExactAndGoBackAtOnce) {
  CudaAllocator allocator({DeviceType::kCuda, 0}, kFake, Caching::kOff);
  void* a = allocator.allocate(1001, stream(1));
  EXPECT_EQ(taken, 1001);
  allocator.release(a, 1001, stream(1));
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(allocator.stats().live_bytes, 0);
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
}

TEST_F(CudaAllocatorTest, SaysWhatIsInUseWhenThereIsNoMore) {
  {
    const AllocationLabel label("conv2d");
    allocator_.allocate(300'000, stream(1));
    const AllocationLabel inner("relu");
    allocator_.allocate(200'000, stream(1));
  }
  allocator_.allocate(100'000, stream(1));
  allocator_.allocate(100'000, stream(1));
  const std::string message =
      message_of<DeviceError>([&] { allocator_.allocate(900'000, stream(1)); });
  EXPECT_THAT(message, HasSubstr("out of memory on cuda: 900000 bytes requested"));
  EXPECT_THAT(message, HasSubstr("1 of 300000 bytes (conv2d), 1 of 200000 (relu), 2 of 100000."));
}

}  // namespace
}  // namespace mezzo::kernels::cuda
