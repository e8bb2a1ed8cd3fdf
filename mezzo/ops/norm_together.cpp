#include "mezzo/ops/norm_together.h"

#include <vector>

#include "mezzo/core/error.h"

namespace mezzo {
namespace {

// A count and two values per channel of every process, in f64, because f32 cannot hold all counts.
class Shared {
 public:
  template <class Number>
  Shared(distributed::ProcessGroup& processes, std::int64_t count, std::span<Number> first,
         std::span<Number> second)
      : channels_(first.size()), size_(static_cast<std::size_t>(processes.size())) {
    std::vector<double> own{static_cast<double>(count)};
    own.insert(own.end(), first.begin(), first.end());
    own.insert(own.end(), second.begin(), second.end());
    all_ = distributed::gathered(processes, std::span<const double>(own));
  }

  std::size_t size() const { return size_; }
  double count(std::size_t process) const { return all_[process * length()]; }
  double first(std::size_t process, std::size_t c) const {
    return all_[process * length() + 1 + c];
  }

  double mean_first(std::size_t c) const {
    double sum = 0;
    for (std::size_t p = 0; p < size_; ++p) sum += first(p, c);
    return sum / static_cast<double>(size_);
  }
  double mean_second(std::size_t c) const { return mean_first(channels_ + c); }

 private:
  std::size_t length() const { return 1 + 2 * channels_; }

  std::size_t channels_;
  std::size_t size_;
  std::vector<double> all_;
};

void check_counts(const Shared& shared) {
  for (std::size_t p = 1; p < shared.size(); ++p) {
    check_arg(shared.count(p) == shared.count(0), "batch_norm",
              "statistics are those of all processes, and process 0 has ", shared.count(0),
              " values per channel, process ", p, " ", shared.count(p),
              ". Give each batches of the same size: drop the last incomplete ones");
  }
}

}  // namespace

template <class Number>
void share_statistics(distributed::ProcessGroup* processes, std::int64_t count,
                      std::span<Number> mean, std::span<Number> var) {
  if (distributed::process_count(processes) == 1) return;
  const Shared shared(*processes, count, mean, var);
  check_counts(shared);
  for (std::size_t c = 0; c < mean.size(); ++c) {
    // All processes have equally many values, so the variance is the mean of the variances plus the
    // variance of the means.
    const double center = shared.mean_first(c);
    double between = 0;
    for (std::size_t p = 0; p < shared.size(); ++p) {
      between += (shared.first(p, c) - center) * (shared.first(p, c) - center);
    }
    between /= static_cast<double>(shared.size());
    mean[c] = static_cast<Number>(center);
    var[c] = static_cast<Number>(shared.mean_second(c) + between);
  }
}

template <class Number>
void share_means(distributed::ProcessGroup* processes, std::span<Number> first,
                 std::span<Number> second) {
  if (distributed::process_count(processes) == 1) return;
  const Shared shared(*processes, 0, first, second);
  for (std::size_t c = 0; c < first.size(); ++c) {
    first[c] = static_cast<Number>(shared.mean_first(c));
    second[c] = static_cast<Number>(shared.mean_second(c));
  }
}

template void share_statistics(distributed::ProcessGroup*, std::int64_t, std::span<float>,
                               std::span<float>);
template void share_statistics(distributed::ProcessGroup*, std::int64_t, std::span<double>,
                               std::span<double>);
template void share_means(distributed::ProcessGroup*, std::span<float>, std::span<float>);
template void share_means(distributed::ProcessGroup*, std::span<double>, std::span<double>);

}  // namespace mezzo
