#include "mezzo/optim/sharded.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/tensors.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/optim/elements.h"

namespace mezzo::optim {
namespace {

// Bytes of parts that are sent together.
constexpr std::int64_t kGatherBytes = std::int64_t{1} << 20;

// Some parameters of one dtype, of which all processes send their parts.
class PartsOfSome {
 public:
  PartsOfSome(const Optimizer& optimizer, int processes)
      : optimizer_(optimizer), processes_(processes) {}

  std::int64_t bytes() const {
    if (members_.empty()) return 0;
    return length_ * static_cast<std::int64_t>(size_of(first().dtype()));
  }
  bool fits(std::size_t param) const {
    if (members_.empty()) return true;
    const Tensor& other = optimizer_.params()[param];
    return bytes() < kGatherBytes && other.dtype() == first().dtype() &&
           other.device() == first().device();
  }
  void add(std::size_t param) {
    members_.push_back(param);
    length_ += largest_part(optimizer_.whole_params()[param].numel(), processes_);
  }

  // Sends the parts, and begins anew.
  void gather(distributed::ProcessGroup& group) {
    if (length_ > 0) exchange(group);
    members_.clear();
    length_ = 0;
  }

 private:
  const Tensor& first() const { return optimizer_.params()[members_.front()]; }

  void exchange(distributed::ProcessGroup& group) const {
    const Tensor own = zeros({length_}, first().dtype(), Format::kContiguous, first().device());
    const Tensor all =
        empty({length_ * processes_}, first().dtype(), Format::kContiguous, first().device());
    std::int64_t at = 0;
    for (const std::size_t i : members_) {
      const Tensor part = optimizer_.params()[i].detach();
      convert_into(part, elements_of(own, {at, at + part.numel()}));
      at += largest_part(optimizer_.whole_params()[i].numel(), processes_);
    }
    distributed::all_gather(group, own, all);
    at = 0;
    for (const std::size_t i : members_) {
      write(all, at, optimizer_.whole_params()[i].detach(), group.rank());
      at += largest_part(optimizer_.whole_params()[i].numel(), processes_);
    }
  }

  void write(const Tensor& all, std::int64_t at, const Tensor& whole, int own) const {
    for (int r = 0; r < processes_; ++r) {
      if (r == own) continue;
      const ShardRange range = range_of(whole.numel(), {r, processes_});
      const std::int64_t from = r * length_ + at;
      convert_into(elements_of(all, {from, from + range.size()}), elements_of(whole, range));
    }
  }

  const Optimizer& optimizer_;
  int processes_;
  std::vector<std::size_t> members_;
  std::int64_t length_ = 0;  // of all their parts, where each has the length of the largest
};

// The parts of all processes, which may differ in length, one after the other.
void gather_into(const Tensor& part, const Tensor& whole, distributed::ProcessGroup& group) {
  const std::int64_t own = part.numel();
  const std::vector<std::int64_t> sizes =
      distributed::gathered(group, std::span<const std::int64_t>(&own, 1));
  const std::int64_t length = *std::ranges::max_element(sizes);
  const Tensor padded = zeros({length}, part.dtype(), Format::kContiguous, part.device());
  const Tensor all =
      empty({length * group.size()}, part.dtype(), Format::kContiguous, part.device());
  copy_elements(elements_of(part, {0, own}), elements_of(padded, {0, own}));
  distributed::all_gather(group, padded, all);
  std::int64_t at = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const std::int64_t from = static_cast<std::int64_t>(r) * length;
    copy_elements(elements_of(all, {from, from + sizes[r]}),
                  elements_of(whole, {at, at + sizes[r]}));
    at += sizes[r];
  }
}

// Without this, parts of different states would be joined, or processes would wait for ever.
void check_same_entries(const Optimizer& optimizer, std::span<const NamedTensor> state,
                        distributed::ProcessGroup& group) {
  constexpr const char* kAdvice = "Load the same state in every process";
  std::vector<std::uint64_t> entries;
  entries.reserve(state.size());
  for (const NamedTensor& entry : state) {
    distributed::Hash hash;
    hash.add(std::string_view(entry.name));
    hash.add(entry.tensor.dtype());
    entries.push_back(hash.value());
  }
  const auto difference = distributed::first_difference(
      group, entries, optimizer.name(), "the number of the optimizer's states", kAdvice);
  if (!difference.has_value()) return;
  fail<ArgumentError>(optimizer.name(), "the state ", state[difference->index].name,
                      " has another ", "name or dtype in process ", difference->process,
                      " than in process 0. ", kAdvice);
}

}  // namespace

void gather_params(Optimizer& optimizer, distributed::ProcessGroup& group) {
  const NoGrad guard;
  PartsOfSome some(optimizer, group.size());
  for (std::size_t i = 0; i < optimizer.params().size(); ++i) {
    if (!some.fits(i)) some.gather(group);
    some.add(i);
  }
  some.gather(group);
  optimizer.note_gathered();
}

void give_gradients_to_parts(const Optimizer& optimizer) {
  const NoGrad guard;
  for (std::size_t i = 0; i < optimizer.params().size(); ++i) {
    const Tensor& whole = optimizer.whole_params()[i];
    if (!whole.grad().defined()) continue;
    const Tensor grad = to_format(whole.grad().detach(), whole.format());
    const ShardRange range = range_of(whole.numel(), optimizer.shard());
    optimizer.params()[i].set_grad(copy_of(elements_of(grad, range)));
    whole.clear_grad();
  }
}

std::vector<NamedTensor> gathered_state(const Optimizer& optimizer,
                                        distributed::ProcessGroup& group) {
  const NoGrad guard;
  std::vector<NamedTensor> state = optimizer.state();
  check_same_entries(optimizer, state, group);
  for (NamedTensor& entry : state) {
    const Tensor whole = optimizer.whole_like(entry);
    gather_into(entry.tensor, whole, group);
    entry.tensor = whole;
  }
  return state;
}

}  // namespace mezzo::optim
