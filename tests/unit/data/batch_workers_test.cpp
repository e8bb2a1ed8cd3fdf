// Tests a loader whose threads cannot be started, or run out of memory.
#include "mezzo/data/batch_workers.h"

#include <cstddef>
#include <cstdlib>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "mezzo/data/open.h"
#include "tests/unit/message_of.h"

namespace {

constinit thread_local bool has_no_memory = false;

}  // namespace

// Replaced in the whole program, since allocations in a thread cannot be seen from outside. Not
// inlined, because the compiler would then see new without its delete.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return has_no_memory ? nullptr : std::malloc(size > 0 ? size : 1);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace mezzo::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// New threads get a stack for which no address space has room.
class NoNewThreads {
 public:
  NoNewThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 60);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
  ~NoNewThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST(LoaderThreads, ThatCannotStartAreAnErrorAndThenTriedAgain) {
  const auto set = open_dataset("digits", Split::kTest);
  const LoaderOptions options{.batch_size = 16, .seed = 3, .workers = 2};
  DataLoader expected(*set, options);
  DataLoader loader(*set, options);
  Batch batch;
  {
    const NoNewThreads guard;
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(message_of<UnsupportedError>([&] { loader.next(batch); }),
                  AllOf(HasSubstr("[loader] worker 1 of 2 cannot be started: "),
                        HasSubstr("Use fewer workers")));
      EXPECT_EQ(loader.position(), LoaderPosition{});
    }
  }
  Batch same;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(loader.next(batch));
    ASSERT_TRUE(expected.next(same));
    EXPECT_EQ(batch.indices, same.indices);
  }
}

// Batches without images. From the fifth on, a thread gets no more memory, which it notices when it
// allocates another batch.
TEST(LoaderThreads, ThatFindNoMemoryForABatchSayItBehindTheGoodOnes) {
  constexpr std::int64_t kLastGood = 4;
  const auto open = [](std::int64_t step) {
    has_no_memory = step >= kLastGood;
    return Batch();
  };
  BatchWorkers workers({.end = 100, .ahead = 100, .open = open, .fill = {}});
  std::int64_t taken = 0;
  const auto take_all = [&] {
    for (; taken < 100; ++taken) workers.take();
  };
  for (int i = 0; i < 2; ++i) EXPECT_THROW(take_all(), std::bad_alloc);
  EXPECT_GT(taken, kLastGood);
}

}  // namespace
}  // namespace mezzo::data
