// Runs the processes of a group as threads of this process, without a launcher.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "mezzo/core/parallel.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::test {

// The data that the threads of a group exchange.
class Meeting {
 public:
  explicit Meeting(int size) : barrier_(size), shown_(static_cast<std::size_t>(size)) {}

  // Shows the others some bytes, and calls read() with all threads' bytes once everybody has
  // arrived.
  template <class Read>
  void exchange(int rank, std::span<const std::byte> bytes, const Read& read) {
    shown_[static_cast<std::size_t>(rank)] = bytes;
    barrier_.arrive_and_wait();
    read(shown_);
    barrier_.arrive_and_wait();
  }

 private:
  std::barrier<> barrier_;
  std::vector<std::span<const std::byte>> shown_;
};

class ThreadAsProcess final : public distributed::ProcessGroup {
 public:
  ThreadAsProcess(int rank, int size, Meeting& meeting)
      : ProcessGroup(rank, size), meeting_(meeting) {}

 private:
  void do_broadcast(std::span<std::byte> bytes) override {
    meeting_.exchange(rank(), bytes, [&](const auto& shown) {
      if (rank() > 0) std::ranges::copy(shown[0], bytes.begin());
    });
  }

  void do_all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const std::size_t each = send.size() / static_cast<std::size_t>(size());
    meeting_.exchange(rank(), send, [&](const auto& shown) {
      const auto own = static_cast<std::size_t>(rank()) * each;
      auto to = receive.begin();
      for (const auto& from : shown) to = std::ranges::copy(from.subspan(own, each), to).out;
    });
  }

  void do_all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    meeting_.exchange(rank(), send, [&](const auto& shown) {
      auto to = receive.begin();
      for (const auto& from : shown) to = std::ranges::copy(from, to).out;
    });
  }

  Meeting& meeting_;
};

// Runs `body` in that many processes, and rethrows the exception of the first that failed. If one
// throws, all must: the others would wait for it.
inline void in_processes(int size, const std::function<void(distributed::ProcessGroup&)>& body) {
  Meeting meeting(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      set_num_threads(1);
      ThreadAsProcess group(rank, size, meeting);
      try {
        body(group);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

// The result of `body` in each of that many processes.
template <class Result>
std::vector<Result> results_of(int size,
                               const std::function<Result(distributed::ProcessGroup&)>& body) {
  std::vector<Result> results(static_cast<std::size_t>(size));
  in_processes(size, [&](distributed::ProcessGroup& group) {
    results[static_cast<std::size_t>(group.rank())] = body(group);
  });
  return results;
}

}  // namespace mezzo::test
