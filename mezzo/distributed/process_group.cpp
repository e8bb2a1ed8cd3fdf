#include "mezzo/distributed/process_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mezzo/distributed/launch.h"
#include "mezzo/distributed/launched_group.h"

namespace mezzo::distributed {
namespace {

class GroupOfOne final : public ProcessGroup {
 public:
  GroupOfOne() : ProcessGroup(0, 1) {}

 private:
  void do_broadcast(std::span<std::byte>) override {}
  void do_all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) override {
    std::ranges::copy(send, receive.begin());
  }
  void do_all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    std::ranges::copy(send, receive.begin());
  }
};

}  // namespace

void ProcessGroup::begin(std::size_t bytes) {
  if (!is_posted()) wait();
  bytes_sent_ += static_cast<std::int64_t>(bytes);
}

void ProcessGroup::begin_broadcast(std::size_t bytes) {
  begin(rank_ == 0 ? bytes * static_cast<std::size_t>(size_ - 1) : 0);
}

void ProcessGroup::begin_all_to_all(std::size_t bytes) {
  begin(bytes - bytes / static_cast<std::size_t>(size_));
}

void ProcessGroup::begin_all_gather(std::size_t bytes) {
  begin(bytes * static_cast<std::size_t>(size_ - 1));
}

void ProcessGroup::broadcast(std::span<std::byte> bytes) {
  begin_broadcast(bytes.size());
  do_broadcast(bytes);
}

void ProcessGroup::all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) {
  begin_all_to_all(send.size());
  do_all_to_all(send, receive);
}

void ProcessGroup::all_gather(std::span<const std::byte> send, std::span<std::byte> receive) {
  begin_all_gather(send.size());
  do_all_gather(send, receive);
}

void ProcessGroup::post(std::function<void()> exchange) { posted_.add(std::move(exchange)); }

void ProcessGroup::wait() { posted_.wait(); }

std::unique_ptr<ProcessGroup> connect() {
  const int launched = launched_by_mpi();
  if (launched > 1 && is_built_with_mpi()) return make_launched_group(launched);
  const std::optional<Launch> launch = launched_by_variables();
  if (launch.has_value() && launch->size > 1) return make_gloo_group(*launch);
  if (launched > 1 && !launch.has_value()) return make_launched_group(launched);
  // Setting up MPI takes longer than training a small network for an epoch.
  return std::make_unique<GroupOfOne>();
}

}  // namespace mezzo::distributed
