// Work that a thread of its own does, in the order in which it was added.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace mezzo::distributed {

// The thread starts with the first work and ends with this object. It has one thread for parallel
// loops, because the others compute meanwhile.
class PostedWork {
 public:
  PostedWork() = default;
  PostedWork(const PostedWork&) = delete;
  PostedWork& operator=(const PostedWork&) = delete;
  // Drops what has not begun.
  ~PostedWork();

  void add(std::function<void()> work);
  // Returns once everything is done. Rethrows the first exception, after which what was added
  // before this call is dropped.
  void wait();
  bool is_own_thread() const { return std::this_thread::get_id() == id_; }
  // Whether another thread is in wait().
  bool is_awaited() const { return is_awaited_; }

 private:
  void run();
  void run_one(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool is_running_ = false;  // some work has begun and not ended
  std::atomic<bool> is_awaited_ = false;
  bool ends_ = false;
  std::exception_ptr failure_{};
  std::thread thread_;
  std::thread::id id_{};  // of thread_, once it has started
};

}  // namespace mezzo::distributed
