#include "mezzo/distributed/agreement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/distributed/average.h"

namespace mezzo::distributed {

std::uint64_t layout_of(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  Hash hash;
  hash.add(tensor.dtype());
  hash.add(tensor.format());
  for (const std::int64_t size : tensor.shape()) hash.add(size);
  return hash.value();
}

void check_same(ProcessGroup& group, std::string_view op, std::string_view what, double value,
                std::string_view advice) {
  const std::vector<double> values = gathered(group, std::span<const double>(&value, 1));
  for (std::size_t i = 1; i < values.size(); ++i) {
    check_arg(values[i] == values[0], op, what, " of process ", i, " is ", values[i],
              ", that of process 0 ", values[0], ". ", advice);
  }
}

std::optional<Difference> first_difference(ProcessGroup& group, std::span<const std::uint64_t> own,
                                           std::string_view op, std::string_view count,
                                           std::string_view advice) {
  Hash digest;
  digest.add(own.size());
  for (const std::uint64_t number : own) digest.add(number);
  const std::uint64_t value = digest.value();
  const auto digests = gathered(group, std::span(&value, 1));
  if (std::ranges::all_of(digests, [&](std::uint64_t other) { return other == value; })) return {};
  check_same(group, op, count, static_cast<double>(own.size()), advice);
  const auto all = gathered(group, own);
  for (std::size_t i = own.size(); i < all.size(); ++i) {
    const std::size_t index = i % own.size();
    if (all[i] != all[index]) return Difference{index, i / own.size(), all[i], all[index]};
  }
  return {};
}

void fail_together(ProcessGroup& group, std::string_view op, std::exception_ptr failure) {
  group.set_all_have_failed(any(group, failure != nullptr));
  if (!group.all_have_failed()) return;
  if (failure != nullptr) std::rethrow_exception(std::move(failure));
  fail<Error>(op, "another process has failed. See its error message");
}

void meet_in_failure(ProcessGroup& group) {
  if (group.all_have_failed()) meet(group);
}

}  // namespace mezzo::distributed
