// Threads that make batches ahead of time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "mezzo/data/loader.h"

namespace mezzo::data {

// Makes the batches of steps first, first + 1, ..., end - 1 and keeps up to `ahead` of them, ready
// or in the making. All threads work on the images of one batch before they open the next, so that
// the first one is there as soon as can be. They run no parallel loops: the cores belong to the
// training step.
class BatchWorkers {
 public:
  struct Plan {
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::int64_t ahead = 1;
    std::int64_t workers = 1;
    // A batch of that step with room for its images.
    std::function<Batch(std::int64_t step)> open;
    // Writes images begin to end - 1 of the batch of that step; on several threads at once, for
    // other images.
    std::function<void(Batch& batch, std::int64_t step, std::int64_t begin, std::int64_t end)> fill;
    // Of a batch with all its images, if there is anything left to do; on one thread.
    std::function<void(Batch& batch, std::int64_t step)> finish{};
  };

  // Throws UnsupportedError if a thread cannot be started; those that were are gone then.
  explicit BatchWorkers(Plan plan);

  // Waits for the next batch. If making it threw, throws that (of its first image that did), and
  // again whenever asked; no batch follows. The same if a thread failed before there was a batch.
  Batch take();
  // The batch that take() will return, if that would neither wait nor throw; null otherwise. It
  // stays as it is until then.
  const Batch* ready();

 private:
  // A batch in the making.
  struct Job {
    Batch batch{};
    std::int64_t step = 0;
    std::int64_t images = 0;
    std::int64_t claimed = 0;  // images that some thread has taken on
    std::int64_t done = 0;
    std::exception_ptr error{};
    std::int64_t error_image = std::numeric_limits<std::int64_t>::max();

    bool is_complete() const { return done == images; }
    void fail_at(std::int64_t image, std::exception_ptr what) {
      if (image >= error_image) return;
      error_image = image;
      error = std::move(what);
    }
  };

  void start(std::int64_t worker);
  void run(const std::stop_token& stop);
  void work(const std::stop_token& stop);
  bool has_work() const;
  // The newest batch, with images that nobody has claimed; opened if need be. has_work() was true.
  Job& claimable_job();
  void work_on(Job& job, std::unique_lock<std::mutex>& lock);
  // Does `work` without the lock. What it throws is the job's error, at that image.
  template <class Work>
  void do_unlocked(Job& job, std::int64_t image, std::unique_lock<std::mutex>& lock,
                   const Work& work);

  Plan plan_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;  // in the order of steps; references stay good while others come and go
  std::int64_t next_step_;
  bool failed_ = false;
  std::exception_ptr error_{};         // that no job holds; what came before it is still taken
  std::vector<std::jthread> threads_;  // last: they stop before what they use goes
};

}  // namespace mezzo::data
