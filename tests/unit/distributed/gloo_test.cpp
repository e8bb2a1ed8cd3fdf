// Tests what carries the data of processes that no MPI has started, with threads as processes.
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "mezzo/distributed/gloo_library.h"
#include "tests/unit/distributed/meetings.h"

namespace mezzo::distributed {
namespace {

// Values that threads share.
class SharedValues {
 public:
  void set(const std::string& key, std::string value) {
    const std::lock_guard lock(mutex_);
    values_[key] = std::move(value);
    changed_.notify_all();
  }
  const std::string& get(const std::string& key) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, test::kPatience, [&] { return values_.contains(key); });
    return values_.at(key);
  }
  MezzoGlooStore store() {
    return {.self = this,
            .set =
                [](void* self, const char* key, const char* bytes, std::size_t count) {
                  static_cast<SharedValues*>(self)->set(key, std::string(bytes, count));
                  return true;
                },
            .get = [](void* self, const char* key, std::size_t* count) -> const char* {
              const std::string& value = static_cast<SharedValues*>(self)->get(key);
              *count = value.size();
              return value.data();
            }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

std::string text_of(std::size_t bytes, int rank, std::size_t part) {
  std::string text(bytes, 0);
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>('a' + (i * 7 + part * 3 + static_cast<std::size_t>(rank)) % 26);
  }
  return text;
}

// Every exchange, in the process of this rank, with parts of this size.
void exchange_all(MezzoGloo* group, int rank, std::size_t size, std::size_t bytes) {
  MezzoGlooError error = {};
  std::string first = text_of(bytes, rank, 0);
  ASSERT_TRUE(gloo().mezzo_gloo_broadcast(group, first.data(), bytes, &error)) << error.text;
  EXPECT_EQ(first, text_of(bytes, 0, 0));

  std::string sent;
  std::string expected;
  std::string expected_of_all;
  for (std::size_t i = 0; i < size; ++i) {
    sent += text_of(bytes, rank, i);
    expected += text_of(bytes, static_cast<int>(i), static_cast<std::size_t>(rank));
    expected_of_all += text_of(bytes, static_cast<int>(i), 0);
  }
  std::string received(sent.size(), 0);
  ASSERT_TRUE(gloo().mezzo_gloo_all_to_all(group, sent.data(), received.data(), bytes, &error))
      << error.text;
  EXPECT_EQ(received, expected);
  ASSERT_TRUE(gloo().mezzo_gloo_all_gather(group, sent.data(), received.data(), bytes, &error))
      << error.text;
  EXPECT_EQ(received, expected_of_all);
}

TEST(GlooModule, AllExchangesCarryBytes) {
  for (const std::size_t size : {2U, 3U}) {
    SharedValues values;
    std::vector<std::thread> threads;
    threads.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      threads.emplace_back([&, i, rank = static_cast<int>(i)] {
        const MezzoGlooStore store = values.store();
        MezzoGlooError error = {};
        MezzoGloo* group = gloo().mezzo_gloo_connect(rank, static_cast<int>(size), test::kThisHost,
                                                     60, &store, &error);
        ASSERT_NE(group, nullptr) << error.text;
        for (const std::size_t bytes : {1U, 5U, 100000U}) exchange_all(group, rank, size, bytes);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(GlooModule, FailuresHaveAText) {
  const MezzoGlooStore store = {
      .self = nullptr,
      .set = [](void*, const char*, const char*, std::size_t) { return true; },
      .get = [](void*, const char*, std::size_t*) -> const char* { return nullptr; }};
  MezzoGlooError error = {};
  EXPECT_EQ(gloo().mezzo_gloo_connect(0, 2, test::kThisHost, 60, &store, &error), nullptr);
  EXPECT_STREQ(error.text, "another process has sent no addresses");
  EXPECT_EQ(gloo().mezzo_gloo_connect(0, 2, "no host.invalid", 60, &store, &error), nullptr);
  EXPECT_NE(std::strlen(error.text), 0U);
}

}  // namespace
}  // namespace mezzo::distributed
