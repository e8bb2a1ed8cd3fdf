#include "mezzo/distributed/average.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/tensors.h"

namespace mezzo::distributed {
namespace {

constexpr const char* kOp = "distributed";
// Size of one exchange: large enough that its start-up cost is negligible, and small enough that
// received data is still in the second-level cache when it is summed.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

std::size_t size_of_group(const ProcessGroup& group) {
  return static_cast<std::size_t>(group.size());
}

std::vector<double> gather(ProcessGroup& group, double value) {
  return gathered(group, std::span<const double>(&value, 1));
}

// Averages arrays, a piece at a time.
class Averager {
 public:
  // `most`: elements of the largest array.
  Averager(ProcessGroup& group, std::size_t most)
      : group_(group),
        size_(size_of_group(group)),
        room_(std::max(std::min(kPieceBytes / sizeof(float), most) / size_, std::size_t{1}) *
              size_),
        received_(std::make_unique_for_overwrite<float[]>(std::max(room_, size_ * size_))),
        mean_(std::make_unique_for_overwrite<float[]>(room_ / size_)) {}

  void run(std::span<float> numbers) {
    while (numbers.size() >= size_) {
      const std::size_t count = std::min(room_, numbers.size() / size_ * size_);
      average_parts(numbers.first(count));
      numbers = numbers.subspan(count);
    }
    if (!numbers.empty()) average_rest(numbers);
  }

 private:
  // Each process sums one part of the elements and sends the result to the others. Parts have equal
  // length.
  void average_parts(std::span<float> numbers) {
    const std::span received(received_.get(), numbers.size());
    const std::span mean(mean_.get(), numbers.size() / size_);
    group_.all_to_all(std::as_bytes(numbers), std::as_writable_bytes(received));
    add_up(received, mean);
    group_.all_gather(std::as_bytes(mean), std::as_writable_bytes(numbers));
  }

  // The remainder, fewer elements than processes: each process sums all of it by itself.
  void average_rest(std::span<float> numbers) {
    const std::span received(received_.get(), numbers.size() * size_);
    group_.all_gather(std::as_bytes(numbers), std::as_writable_bytes(received));
    add_up(received, numbers);
  }

  // The mean of `parts`, which holds the parts of all processes in sequence.
  void add_up(std::span<const float> parts, std::span<float> mean) const {
    const float share = 1.0F / static_cast<float>(size_);
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      const auto from = static_cast<std::size_t>(begin);
      const auto to = static_cast<std::size_t>(end);
      for (std::size_t i = from; i < to; ++i) mean[i] = parts[i];
      for (std::size_t first = mean.size(); first < parts.size(); first += mean.size()) {
        for (std::size_t i = from; i < to; ++i) mean[i] += parts[first + i];
      }
      for (std::size_t i = from; i < to; ++i) mean[i] *= share;
    };
    parallel_for(static_cast<std::int64_t>(mean.size()), kElementGrain, add);
  }

  ProcessGroup& group_;
  std::size_t size_;
  std::size_t room_;  // elements of a piece
  std::unique_ptr<float[]> received_;
  std::unique_ptr<float[]> mean_;
};

// Without this check, tensors of equal size but different meaning would be accepted, and tensors of
// different sizes would wait for ever.
void check_same_tensors(ProcessGroup& group, std::span<const NamedTensor> tensors) {
  constexpr const char* kAdvice =
      "Make the same network and optimizer in every process, with their parts in the same order";
  std::vector<std::uint64_t> layouts;
  for (const NamedTensor& entry : tensors) {
    Hash hash;
    hash.add(std::string_view(entry.name));
    hash.add(layout_of(entry.tensor));
    layouts.push_back(hash.value());
  }
  const auto difference =
      first_difference(group, layouts, kOp, "the number of tensors of network and state", kAdvice);
  if (!difference.has_value()) return;
  const NamedTensor& own = tensors[difference->index];
  fail<ArgumentError>(kOp, "tensor ", difference->index, " of network and state, here ", own.name,
                      ", ", own.tensor, ", has another name, shape, dtype or format in process ",
                      difference->process, " than in process 0. ", kAdvice);
}

}  // namespace

void average(ProcessGroup& group, std::span<float> numbers) {
  if (group.size() > 1) Averager(group, numbers.size()).run(numbers);
}

double sum(ProcessGroup& group, double value) {
  double total = 0;
  for (const double part : gather(group, value)) total += part;
  return total;
}

double average(ProcessGroup& group, double value) {
  return sum(group, value) / static_cast<double>(group.size());
}

bool any(ProcessGroup& group, bool value) { return sum(group, value ? 1 : 0) > 0; }

void meet(ProcessGroup& group) { any(group, false); }

void broadcast(ProcessGroup& group, std::int64_t& number) {
  group.broadcast(std::as_writable_bytes(std::span(&number, 1)));
}

void broadcast(ProcessGroup& group, std::span<const NamedTensor> tensors) {
  if (group.size() == 1) return;
  check_same_tensors(group, tensors);
  for (const NamedTensor& entry : tensors) {
    check_arg(entry.tensor.is_one_block(), kOp, entry.name, " is ", entry.tensor,
              ". Processes can share only dense tensors");
    broadcast(group, entry.tensor);
  }
}

}  // namespace mezzo::distributed
