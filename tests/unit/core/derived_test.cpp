#include "mezzo/core/derived.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/storage.h"
#include "mezzo/core/tensor.h"

namespace mezzo {
namespace {

const DerivedKey kFirst{.kind = 1};
const DerivedKey kSecond{.kind = 2};

Ref<RefCounted> some_copy() { return Ref<RefCounted>(make_ref<Storage>(64, kCpuDevice).get()); }

TEST(DerivedCopies, OneTakesThePlaceOfAnotherWithItsKey) {
  DerivedCopies copies;
  copies.put(kFirst, 1, some_copy());
  copies.put(kSecond, 1, some_copy());
  const Ref<RefCounted> latest = some_copy();
  copies.put(kFirst, 1, latest);
  EXPECT_EQ(copies.all(1).size(), 2U);
  EXPECT_EQ(copies.find(kFirst, 1).get(), latest.get());
}

TEST(DerivedCopies, ThoseOfAnotherVersionAreNotGiven) {
  DerivedCopies copies;
  copies.put(kFirst, 1, some_copy());
  EXPECT_TRUE(copies.all(2).empty());
  EXPECT_EQ(copies.all(1).size(), 1U);
  EXPECT_EQ(copies.find(kFirst, 2).get(), nullptr);
  EXPECT_TRUE(copies.all(1).empty()) << "found to be old, it is dropped";
}

class FillsInTheSecondAttempt final : public LazyContents {
 public:
  void fill(void* destination) override {
    if (is_first_) {
      is_first_ = false;
      throw std::runtime_error("not yet");
    }
    *static_cast<int*>(destination) = 7;
  }
  bool is_current() const override { return true; }

 private:
  bool is_first_ = true;
};

TEST(Storage, WhatCouldNotBeFilledTakesNoMemoryAndMayBeAskedForAgain) {
  const Storage storage(4096, kCpuDevice, Ref<LazyContents>(new FillsInTheSecondAttempt));
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  EXPECT_THROW(storage.data(), std::runtime_error);
  EXPECT_EQ(cpu_allocator().stats().live_bytes, before);
  EXPECT_EQ(*static_cast<const int*>(storage.data()), 7);
  EXPECT_EQ(cpu_allocator().stats().live_bytes, before + 4096);
}

}  // namespace
}  // namespace mezzo
