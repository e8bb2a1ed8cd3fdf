#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/recording_memory.h"
#include "tests/unit/cuda/fake_card.h"

namespace mezzo::kernels::cuda {
namespace {

class RecordingMemoryTest : public testing::Test {
 protected:
  RecordingMemoryTest() { forget_card(); }
  ~RecordingMemoryTest() override {
    memory_ = nullptr;
    allocator_.trim();
  }

  CudaAllocator allocator_{{DeviceType::kCuda, 0}, kFake};
  Ref<RecordingMemory> memory_ = make_ref<RecordingMemory>(allocator_);
};

TEST_F(RecordingMemoryTest, HandsItsBlocksOutAgain) {
  void* large = memory_->take(50'000, stream(1));
  void* small = memory_->take(3000, stream(1));
  EXPECT_EQ(memory_->take(0, stream(1)), nullptr);
  EXPECT_TRUE(memory_->put_back(large));
  EXPECT_TRUE(memory_->put_back(small));
  EXPECT_EQ(memory_->take(2000, stream(1)), small) << "the smallest that fits";
  EXPECT_EQ(memory_->take(2000, stream(1)), large);
  EXPECT_EQ(fresh, 2);
}

TEST_F(RecordingMemoryTest, KnowsItsBlocks) {
  void* other = allocator_.allocate(100, stream(1));
  EXPECT_FALSE(memory_->put_back(other));
}

TEST_F(RecordingMemoryTest, NobodyElseGetsThemWhileItLives) {
  void* block = memory_->take(5000, stream(1));
  allocator_.release(block, 5000, stream(1));  // by an owner that outlives the recording
  memory_->put_back(block);
  EXPECT_NE(allocator_.allocate(5000, stream(1)), block);
  memory_ = nullptr;
  EXPECT_EQ(allocator_.allocate(5000, stream(1)), block);
  EXPECT_TRUE(ordered.empty());
}

TEST_F(RecordingMemoryTest, ReturnsNothingToTheCardThatIsFull) {
  void* cached = allocator_.allocate(600'000, stream(1));
  allocator_.release(cached, 600'000, stream(1));
  EXPECT_THROW(memory_->take(800'000, stream(1)), DeviceError);
  EXPECT_EQ(memory_->take(590'000, stream(1)), cached);
}

}  // namespace
}  // namespace mezzo::kernels::cuda
