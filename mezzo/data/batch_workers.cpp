#include "mezzo/data/batch_workers.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::data {

BatchWorkers::BatchWorkers(Plan plan) : plan_(std::move(plan)), next_step_(plan_.first) {
  threads_.reserve(static_cast<std::size_t>(plan_.workers));
  for (std::int64_t i = 0; i < plan_.workers; ++i) start(i);
}

// Thread limits of the process, the user or a container show up here.
void BatchWorkers::start(std::int64_t worker) {
  try {
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    fail<UnsupportedError>("loader", "worker ", worker + 1, " of ", plan_.workers,
                           " cannot be started: ", error.what(),
                           ". Use fewer workers, or raise the limit on threads");
  }
}

Batch BatchWorkers::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return jobs_.empty() ? error_ != nullptr : jobs_.front().is_complete(); });
  if (jobs_.empty()) std::rethrow_exception(error_);
  if (jobs_.front().error != nullptr) std::rethrow_exception(jobs_.front().error);
  Batch batch = std::move(jobs_.front().batch);
  jobs_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

const Batch* BatchWorkers::ready() {
  const std::lock_guard lock(mutex_);
  const bool is_ready =
      !jobs_.empty() && jobs_.front().is_complete() && jobs_.front().error == nullptr;
  return is_ready ? &jobs_.front().batch : nullptr;
}

bool BatchWorkers::has_work() const {
  if (!jobs_.empty() && jobs_.back().claimed < jobs_.back().images) return true;
  return !failed_ && next_step_ < plan_.end &&
         static_cast<std::int64_t>(jobs_.size()) < plan_.ahead;
}

BatchWorkers::Job& BatchWorkers::claimable_job() {
  if (jobs_.empty() || jobs_.back().claimed == jobs_.back().images) {
    Job& job = jobs_.emplace_back();
    try {
      job.step = next_step_++;
      job.batch = plan_.open(job.step);
      job.images = static_cast<std::int64_t>(job.batch.indices.size());
    } catch (...) {
      failed_ = true;
      job.fail_at(0, std::current_exception());
    }
    changed_.notify_all();  // there is work for the others, too
  }
  return jobs_.back();
}

template <class Work>
void BatchWorkers::do_unlocked(Job& job, std::int64_t image, std::unique_lock<std::mutex>& lock,
                               const Work& work) {
  lock.unlock();
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error == nullptr) return;
  failed_ = true;
  job.fail_at(image, error);
}

void BatchWorkers::work_on(Job& job, std::unique_lock<std::mutex>& lock) {
  // Few enough claims that taking one costs little, yet small enough that threads end together.
  constexpr std::int64_t kClaims = 4;
  const std::int64_t part = std::max<std::int64_t>(1, job.images / (kClaims * plan_.workers));
  const std::int64_t begin = job.claimed;
  const std::int64_t end = std::min(begin + part, job.images);
  job.claimed = end;
  do_unlocked(job, begin, lock, [&] { plan_.fill(job.batch, job.step, begin, end); });
  // A waiting consumer sees the batch as complete only once it is finished.
  const bool is_last = job.done + end - begin == job.images;
  if (is_last && plan_.finish && job.error == nullptr) {
    do_unlocked(job, begin, lock, [&] { plan_.finish(job.batch, job.step); });
  }
  job.done += end - begin;
}

// An exception that escaped from a thread would end the program.
void BatchWorkers::run(const std::stop_token& stop) {
  try {
    work(stop);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    error_ = std::current_exception();
  }
  changed_.notify_all();
}

void BatchWorkers::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return has_work(); })) {
    if (stop.stop_requested()) return;
    Job& job = claimable_job();
    if (job.images > 0) work_on(job, lock);
    if (job.is_complete()) changed_.notify_all();
  }
}

}  // namespace mezzo::data
