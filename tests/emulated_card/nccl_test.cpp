// Tests what processes do where NCCL is missing, refuses or fails.
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/log.h"
#include "mezzo/core/tensor.h"
#include "mezzo/distributed/tensors.h"
#include "tests/emulated_card/nccl_watch.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/processes_on_cards.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using distributed::ProcessGroup;
using emulated_card::nccl_counts;
using emulated_card::NcclCounts;
using test::card_of;
using test::in_processes;
using test::Route;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// NCCL as it should be before and after each test, and what is logged in between.
class NcclOnCards : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_route(Route::kNccl, 2)) GTEST_SKIP() << "there are no two cards";
    logging::set_sink([this](logging::Topic topic, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (topic == logging::Topic::kWarning) lines_.emplace_back(line);
    });
  }
  void TearDown() override {
    logging::set_sink(logging::write_to_standard_error);
    emulated_card::set_nccl_missing(false);
    emulated_card::set_nccl_init_failure(-1);
    emulated_card::set_nccl_async_failure(false);
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// All processes have the first one's tensor, sent without NCCL.
void expect_staged_broadcast(ProcessGroup& group, Device card) {
  const std::int64_t before = nccl_counts().exchanges;
  const Tensor tensor = full({5}, group.rank() + 1, DType::kF32, Format::kContiguous, card);
  distributed::broadcast(group, tensor);
  EXPECT_EQ(floats(tensor), std::vector<float>(5, 1));
  EXPECT_EQ(nccl_counts().exchanges, before);
}

void expect_staged(int size, Route cards) {
  in_processes(size, [&](ProcessGroup& group) {
    const Device card = card_of(group, cards);
    distributed::use_device(group, card);
    EXPECT_EQ(group.device_engine(), nullptr);
    expect_staged_broadcast(group, card);
  });
}

TEST_F(NcclOnCards, ExchangesWhereItCan) {
  const NcclCounts before = nccl_counts();
  in_processes(2, [&](ProcessGroup& group) {
    const Device card = card_of(group, Route::kNccl);
    distributed::use_device(group, card);
    distributed::use_device(group, card);  // changes nothing
    ASSERT_NE(group.device_engine(), nullptr);
    EXPECT_EQ(nccl_counts().open, before.open + 2);
    const Tensor tensor = full({5}, group.rank() + 1, DType::kF32, Format::kContiguous, card);
    distributed::broadcast(group, tensor);
    EXPECT_EQ(floats(tensor), std::vector<float>(5, 1));
  });
  EXPECT_EQ(nccl_counts().exchanges, before.exchanges + 1);
  EXPECT_EQ(nccl_counts().open, before.open);
  EXPECT_EQ(nccl_counts().aborted, before.aborted);
  EXPECT_THAT(lines(), testing::IsEmpty());
}

TEST_F(NcclOnCards, ProcessesThatShareACardGoThroughTheHost) {
  expect_staged(3, Route::kHost);
  EXPECT_THAT(lines(), ElementsAre(AllOf(HasSubstr("through host memory, not by NCCL"),
                                         HasSubstr("processes 0 and 1 share a card"))));
}

TEST_F(NcclOnCards, WithoutNcclAllGoThroughTheHost) {
  emulated_card::set_nccl_missing(true);
  expect_staged(2, Route::kNccl);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("NCCL could not be loaded: it was taken away")));
}

TEST_F(NcclOnCards, AllGoThroughTheHostIfOneCannotJoin) {
  const NcclCounts before = nccl_counts();
  emulated_card::set_nccl_init_failure(1);
  expect_staged(3, Route::kNccl);
  EXPECT_EQ(nccl_counts().open, before.open);
  EXPECT_EQ(nccl_counts().aborted, before.aborted + 2) << "the others wait for nobody";
  EXPECT_THAT(lines(),
              ElementsAre(AllOf(HasSubstr("[distributed] ncclCommInitRank failed: unhandled system "
                                          "error, no room for its threads"),
                                HasSubstr("(process 1)"))));
}

TEST_F(NcclOnCards, AVariableDoesWithoutIt) {
  setenv("MEZZO_NCCL", "0", 1);  // NOLINT(concurrency-mt-unsafe)
  expect_staged(2, Route::kNccl);
  unsetenv("MEZZO_NCCL");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("MEZZO_NCCL=0")));
}

// A connection that is lost while processes train.
TEST_F(NcclOnCards, ErrorsOfConnectionsAreThoseOfTheNextExchange) {
  const NcclCounts before = nccl_counts();
  in_processes(2, [](ProcessGroup& group) {
    const Device card = card_of(group, Route::kNccl);
    distributed::use_device(group, card);
    emulated_card::set_nccl_async_failure(true);
    const Tensor tensor = zeros({5}, DType::kF32, Format::kContiguous, card);
    EXPECT_THAT(message_of<DeviceError>([&] { distributed::broadcast(group, tensor); }),
                AllOf(HasSubstr("[distributed] an exchange by NCCL failed: remote process exited"),
                      HasSubstr("NCCL_DEBUG=WARN")));
  });
  EXPECT_EQ(nccl_counts().aborted, before.aborted + 2);
}

// Another process may be waiting for what this one will not send.
TEST_F(NcclOnCards, AProcessThatFailsDoesNotWaitAtItsEnd) {
  const NcclCounts before = nccl_counts();
  EXPECT_THROW(in_processes(2,
                            [](ProcessGroup& group) {
                              const Device card = card_of(group, Route::kNccl);
                              distributed::use_device(group, card);
                              const Tensor tensor =
                                  zeros({5}, DType::kF32, Format::kContiguous, card);
                              distributed::broadcast(group, tensor);
                              throw FileError("the file of a process is gone");
                            }),
               FileError);
  EXPECT_EQ(nccl_counts().open, before.open);
}

}  // namespace
}  // namespace mezzo
