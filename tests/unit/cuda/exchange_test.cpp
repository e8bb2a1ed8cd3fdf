// Tests exchanges of tensors on cards, by NCCL and through the host.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/device_engine.h"
#include "mezzo/core/tensor.h"
#include "mezzo/distributed/average.h"
#include "mezzo/distributed/tensors.h"
#include "mezzo/ops/arithmetic.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/processes_on_cards.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using distributed::ProcessGroup;
using test::on_cards;
using test::Route;
using test::routes_of;
using testing::HasSubstr;

using Exchange = OnCard<>;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kParts[] = {1, 7, 1000, 2'500'000};  // the last takes several pieces

// What process `from` has for process `to`.
std::uint8_t byte_of(int from, int to, std::int64_t i) {
  return static_cast<std::uint8_t>(from * 31 + to * 7 + i % 251);
}

Tensor bytes_on(Device card, const Bytes& bytes) {
  return from_values(bytes, {static_cast<std::int64_t>(bytes.size())}).to(card);
}

Tensor bytes_for(Device card, std::int64_t count) {
  return empty({count}, DType::kU8, Format::kContiguous, card);
}

Bytes bytes_in(const Tensor& tensor) { return tensor.to(kCpuDevice).to_vector<std::uint8_t>(); }

void append(Bytes& bytes, int from, int to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) bytes.push_back(byte_of(from, to, i));
}

void expect_all_to_all(ProcessGroup& group, Device card, std::int64_t part) {
  Bytes sent;
  Bytes expected;
  for (int r = 0; r < group.size(); ++r) {
    append(sent, group.rank(), r, part);
    append(expected, r, group.rank(), part);
  }
  const Tensor send = bytes_on(card, sent);
  const Tensor receive = bytes_for(card, group.size() * part);
  const std::uint64_t before = receive.version();
  distributed::all_to_all(group, send, receive);
  EXPECT_EQ(receive.version() > before, part > 0) << "copies of it are stale";
  EXPECT_EQ(bytes_in(receive), expected) << part;
  EXPECT_EQ(bytes_in(send), sent) << part;
}

void expect_all_gather(ProcessGroup& group, Device card, std::int64_t part) {
  Bytes sent;
  Bytes expected;
  append(sent, group.rank(), 0, part);
  for (int r = 0; r < group.size(); ++r) append(expected, r, 0, part);
  const Tensor receive = bytes_for(card, group.size() * part);
  distributed::all_gather(group, bytes_on(card, sent), receive);
  EXPECT_EQ(bytes_in(receive), expected) << part;
}

void expect_broadcast(ProcessGroup& group, Device card, std::int64_t part) {
  Bytes own;
  Bytes first;
  append(own, group.rank(), 0, part);
  append(first, 0, 0, part);
  const Tensor tensor = bytes_on(card, own);
  distributed::broadcast(group, tensor);
  EXPECT_EQ(bytes_in(tensor), first) << part;
}

void expect_exchanges(ProcessGroup& group, Device card) {
  for (const std::int64_t part : kParts) {
    expect_all_to_all(group, card, part);
    expect_all_gather(group, card, part);
    expect_broadcast(group, card, part);
  }
}

TEST_F(Exchange, MovesTheBytesOfAllProcesses) {
  for (const int size : {1, 2, 3, 4}) {
    for (const Route route : routes_of(size)) {
      if (size == 1 && route == Route::kNccl) continue;
      SCOPED_TRACE(concat(test::name_of(route), ", ", size));
      on_cards(size, route, expect_exchanges);
    }
  }
}

TEST_F(Exchange, CpusHaveTheSameFunctions) {
  test::in_processes(3, [](ProcessGroup& group) {
    distributed::use_device(group, kCpuDevice);
    EXPECT_EQ(group.device_engine(), nullptr);
    expect_all_to_all(group, kCpuDevice, 1000);
    expect_all_gather(group, kCpuDevice, 1000);
    expect_broadcast(group, kCpuDevice, 1000);
  });
}

TEST_F(Exchange, NothingIsNothing) {
  on_cards(2, Route::kHost, [](ProcessGroup& group, Device card) {
    expect_all_to_all(group, card, 0);
    expect_all_gather(group, card, 0);
    expect_broadcast(group, card, 0);
  });
}

// Nobody waits for the card in between.
TEST_F(Exchange, TakesItsPlaceAmongTheKernels) {
  for (const Route route : routes_of(2)) {
    on_cards(2, route, [](ProcessGroup& group, Device card) {
      const Tensor own =
          full({1000}, group.rank() + 1, DType::kBf16, Format::kContiguous, card) * 3;
      const Tensor all = empty({2000}, DType::kBf16, Format::kContiguous, card);
      distributed::all_gather(group, own, all);
      fill(own, 0);
      const std::vector<float> sums = floats(all + all);
      EXPECT_EQ(sums[999], 6);
      EXPECT_EQ(sums[1000], 12);
    });
  }
}

TEST_F(Exchange, CountsWhatIsSent) {
  for (const Route route : routes_of(4)) {
    on_cards(4, route, [](ProcessGroup& group, Device card) {
      const auto sent_by = [&](const auto& exchange) {
        const std::int64_t before = group.bytes_sent();
        exchange();
        return group.bytes_sent() - before;
      };
      const Tensor one = zeros({100}, DType::kF32, Format::kContiguous, card);
      const Tensor four = zeros({400}, DType::kF32, Format::kContiguous, card);
      const Tensor other = zeros({400}, DType::kF32, Format::kContiguous, card);
      EXPECT_EQ(sent_by([&] { distributed::all_gather(group, one, four); }), 3 * 400);
      EXPECT_EQ(sent_by([&] { distributed::all_to_all(group, four, other); }), 3 * 400);
      EXPECT_EQ(sent_by([&] { distributed::broadcast(group, one); }), group.rank() == 0 ? 1200 : 0);
    });
  }
}

TEST_F(Exchange, PostedWorkComesFirst) {
  for (const Route route : routes_of(2)) {
    on_cards(2, route, [](ProcessGroup& group, Device card) {
      const Tensor tensor = full({3}, group.rank() + 1, DType::kF32, Format::kContiguous, card);
      bool is_done = false;
      group.post([&] {
        distributed::sum(group, 1);
        is_done = true;
      });
      distributed::broadcast(group, tensor);
      EXPECT_TRUE(is_done);
      EXPECT_EQ(floats(tensor), std::vector<float>(3, 1));
    });
  }
}

TEST_F(Exchange, BeginsWithTheTensorsOfTheFirst) {
  for (const Route route : routes_of(3)) {
    on_cards(3, route, [](ProcessGroup& group, Device card) {
      const Tensor weight =
          full({2, 8, 3, 3}, group.rank(), DType::kF32, Format::kChannelsLast, card);
      const Tensor count = full({}, group.rank() + 5, DType::kI64);  // beside the card's
      distributed::broadcast(group, std::vector<NamedTensor>{{"weight", weight}, {"count", count}});
      EXPECT_EQ(floats(weight), std::vector<float>(144, 0));
      EXPECT_EQ(count.item(), 5);
    });
  }
}

TEST_F(Exchange, RefusesTensorsThatDoNotFit) {
  on_cards(2, Route::kHost, [](ProcessGroup& group, Device card) {
    const Tensor three = zeros({3}, DType::kF32, Format::kContiguous, card);
    const Tensor four = zeros({2, 2}, DType::kF32, Format::kContiguous, card);
    const Tensor across = alias(four, {2, 1}, {2, 1}, 0);
    EXPECT_THAT(message_of<ArgumentError>([&] { distributed::all_to_all(group, three, three); }),
                HasSubstr("[distributed] what is sent is f32[3], what is received f32[3]"));
    EXPECT_THAT(message_of<ArgumentError>([&] { distributed::all_gather(group, three, four); }),
                HasSubstr("their bytes do not fit together"));
    EXPECT_THAT(message_of<ArgumentError>([&] { distributed::broadcast(group, across); }),
                HasSubstr("is f32[2, 1], and not dense"));
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  distributed::all_to_all(group, four, zeros({2, 2}));
                }),
                HasSubstr("what is sent is on cuda, what is received on cpu"));
  });
}

TEST_F(Exchange, KindsOfDevicesAreNotMixed) {
  test::in_processes(2, [](ProcessGroup& group) {
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  distributed::use_device(group, group.rank() == 0 ? kCard : kCpuDevice);
                }),
                HasSubstr("whether the device is a card (1) or the CPU (0) of process 1 is 0"));
  });
}

// As gpu_check runs it on one card.
TEST_F(Exchange, NcclTakesOneProcess) {
  const DeviceEngineMaker* maker = backend_of(kCard).engine_maker();
  if (maker == nullptr) GTEST_SKIP() << "mezzo was built without NCCL";
  maker->check();
  const std::unique_ptr<DeviceEngine> engine = maker->make(maker->make_key(), 0, 1, kCard);
  EXPECT_EQ(engine->device(), kCard);
  const Tensor from = full({1000}, 3, DType::kF32, Format::kContiguous, kCard) * 2;
  const Tensor to = zeros({1000}, DType::kF32, Format::kContiguous, kCard);
  engine->broadcast(from.address(), from.bytes());
  engine->all_to_all(from.address(), to.address(), from.bytes());
  EXPECT_EQ(floats(to * 1), std::vector<float>(1000, 6));
  fill(to, 0);
  engine->all_gather(from.address(), to.address(), from.bytes());
  EXPECT_EQ(floats(to * 1), std::vector<float>(1000, 6));
}

// As launchers number the processes of a host.
TEST_F(Exchange, ProcessesTakeTheCardsInTurn) {
  const auto cards = static_cast<int>(devices().size()) - 1;
  for (const int number : {0, 1, 2, 5}) {
    setenv("LOCAL_RANK", concat(number).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EQ(distributed::own_card().index, number % cards);
  }
  unsetenv("LOCAL_RANK");  // NOLINT(concurrency-mt-unsafe)
}

TEST_F(Exchange, CardsHaveDifferentIdentities) {
  const DeviceEngineMaker* maker = backend_of(kCard).engine_maker();
  if (maker == nullptr) GTEST_SKIP() << "mezzo was built without NCCL";
  EXPECT_EQ(maker->identity_of(kCard), maker->identity_of(kCard));
  if (devices().size() < 3) return;
  EXPECT_NE(maker->identity_of(kCard), maker->identity_of({DeviceType::kCuda, 1}));
}

}  // namespace
}  // namespace mezzo
