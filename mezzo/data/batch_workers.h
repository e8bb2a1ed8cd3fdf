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

// Makes the batches of steps first, first + 1, ..., end - 1 and keeps up to `ahead` of them
// finished or in progress. All threads work on the images of one batch before they start the next,
// so that the first batch is ready as early as possible. They run no parallel loops, since the
// cores belong to the training step.
class BatchWorkers {
 public:
  struct Plan {
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::int64_t ahead = 1;
    std::int64_t workers = 1;
    // Allocates the batch of that step.
    std::function<Batch(std::int64_t step)> open;
    // Writes images begin to end - 1 of the batch of that step. Called on several threads at once,
    // for disjoint images.
    std::function<void(Batch& batch, std::int64_t step, std::int64_t begin, std::int64_t end)> fill;
    // Called on one thread when all images of a batch are written; may be empty.
    std::function<void(Batch& batch, std::int64_t step)> finish{};
  };

  // Throws UnsupportedError if a thread cannot be started; threads already started are then gone.
  explicit BatchWorkers(Plan plan);

  // Waits for the next batch. If making it threw, rethrows the error of its first failed image, now
  // and on every later call; no batch follows. Does the same if a thread failed before there was a
  // batch.
  Batch take();
  // The batch that take() will return, if take() would neither wait nor throw; otherwise null. The
  // batch does not change until then.
  const Batch* ready();

 private:
  // A batch in progress.
  struct Job {
    Batch batch{};
    std::int64_t step = 0;
    std::int64_t images = 0;
    std::int64_t claimed = 0;  // images that threads have started on
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
  // The newest batch with unclaimed images; opened if necessary. Requires has_work().
  Job& claimable_job();
  void work_on(Job& job, std::unique_lock<std::mutex>& lock);
  // Runs `work` without holding the lock. An exception becomes the job's error, at that image.
  template <class Work>
  void do_unlocked(Job& job, std::int64_t image, std::unique_lock<std::mutex>& lock,
                   const Work& work);

  Plan plan_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;  // by step; references survive insertion and removal at the ends
  std::int64_t next_step_;
  bool failed_ = false;
  std::exception_ptr error_{};         // belongs to no job; earlier batches are still taken
  std::vector<std::jthread> threads_;  // last: they stop before what they use is destroyed
};

}  // namespace mezzo::data
