#include "mezzo/distributed/posted_work.h"

#include <utility>

#include "mezzo/core/parallel.h"

namespace mezzo::distributed {

PostedWork::~PostedWork() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void PostedWork::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return;  // work that came after it is dropped
    if (!thread_.joinable()) {
      // It cannot get past the lock before its identifier is known.
      thread_ = std::thread([this] { run(); });
      id_ = thread_.get_id();
    }
    waiting_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void PostedWork::wait() {
  std::unique_lock lock(mutex_);
  is_awaited_ = true;
  changed_.wait(lock, [this] { return waiting_.empty() && !is_running_; });
  is_awaited_ = false;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void PostedWork::run() {
  set_num_threads(1);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    run_one(lock);
  }
}

void PostedWork::run_one(std::unique_lock<std::mutex>& lock) {
  const std::function<void()> work = std::move(waiting_.front());
  waiting_.pop_front();
  is_running_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  is_running_ = false;
  if (failure != nullptr) {
    failure_ = failure;
    waiting_.clear();
  }
  changed_.notify_all();
}

}  // namespace mezzo::distributed
