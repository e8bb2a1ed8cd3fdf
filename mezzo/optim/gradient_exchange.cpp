#include "mezzo/optim/gradient_exchange.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/wire.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::optim {
namespace {

constexpr const char* kOp = "average_gradients";
constexpr const char* kSameTraining =
    "Every process must train the same network, and use the same parameters in the same steps";

// Bytes of f32 gradients that are sent together: enough that the start of an exchange costs little
// beside it, and few enough that the first one leaves early in the backward pass.
constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20;
// On a card, where a step is a recording that every bucket cuts in two, and links are faster.
constexpr std::int64_t kBucketBytesOnCards = std::int64_t{32} << 20;

[[noreturn]] void fail_for(const distributed::Difference& difference) {
  const bool is_missing_first = difference.first == 0;
  const bool is_missing = is_missing_first || difference.value == 0;
  fail<ArgumentError>(
      kOp, "the gradient of parameter ", difference.index, " ",
      is_missing ? "is missing in process " : "differs in shape or format in process ",
      is_missing_first ? 0 : difference.process, ", unlike in process ",
      is_missing_first ? difference.process : 0, ". ", kSameTraining);
}

// Throws in every process unless the lists are the same.
void check_layouts(distributed::ProcessGroup& group, std::span<const std::uint64_t> layouts) {
  const auto difference =
      distributed::first_difference(group, layouts, kOp, "the number of parameters", kSameTraining);
  if (difference.has_value()) fail_for(*difference);
}

}  // namespace

std::shared_ptr<GradientExchange> GradientExchange::make(std::span<const Tensor> params,
                                                         std::span<const Tensor> parts,
                                                         distributed::ProcessGroup& group,
                                                         DType reduce_dtype) {
  check_arg(distributed::can_be_exchanged(reduce_dtype), kOp, "gradients cannot be exchanged in ",
            reduce_dtype, ". Use ", distributed::kWireDTypes);
  return std::shared_ptr<GradientExchange>(
      new GradientExchange(params, parts, group, reduce_dtype));
}

GradientExchange::GradientExchange(std::span<const Tensor> params, std::span<const Tensor> parts,
                                   distributed::ProcessGroup& group, DType reduce_dtype)
    : group_(group), params_(params.begin(), params.end()), has_parts_(!parts.empty()) {
  std::vector<ExchangedParam> bucket;
  std::int64_t bytes = 0;
  for (std::size_t i = params_.size(); i-- > 0;) {
    bucket.push_back({params_[i], parts.empty() ? Tensor() : parts[i]});
    place_of_[params_[i].impl()] = buckets_.size();
    bytes += params_[i].numel() * static_cast<std::int64_t>(sizeof(float));
    const bool is_on_card = !params_[i].device().is_cpu();
    if (bytes < (is_on_card ? kBucketBytesOnCards : kBucketBytes) && i > 0) continue;
    buckets_.push_back(std::make_unique<GradientBucket>(std::exchange(bucket, {}), reduce_dtype));
    bytes = 0;
  }
}

void GradientExchange::begin(Kind kind) {
  kind_ = kind;
  next_ = 0;
  left_.clear();
  left_.reserve(buckets_.size());
  for (const auto& bucket : buckets_) left_.push_back(bucket->params().size());
}

// The last bucket is left to finish(), which need not start a thread for it.
void GradientExchange::on_complete(const Tensor& leaf) {
  const auto place = place_of_.find(leaf.impl());
  if (place == place_of_.end()) return;
  --left_[place->second];
  while (next_ + 1 < buckets_.size() && left_[next_] == 0) note_send(next_++);
}

void GradientExchange::note_send(std::size_t bucket) {
  std::vector<Tensor> params;
  params.reserve(buckets_[bucket]->params().size());
  for (const ExchangedParam& p : buckets_[bucket]->params()) params.push_back(p.param);
  do_host_work("send_gradients", {}, params,
               [self = shared_from_this(), bucket, kind = kind_](std::span<const Tensor>) {
                 return self->send(bucket, kind, true), true;
               });
  if (capture_hook() == nullptr || kind_ == Kind::kWhole) return;
  for (const Tensor& param : params) param.clear_grad();  // as it does in every run
}

void GradientExchange::send(std::size_t bucket, Kind kind, bool posts) {
  const WithoutCallListener not_of_the_step;
  if (!is_checked_) check_params();
  is_checked_ = true;
  buckets_[bucket]->send(group_, kind == Kind::kParts, posts);
}

// With parameters of other sizes, the processes would wait for each other for ever.
void GradientExchange::check_params() const {
  std::vector<std::uint64_t> layouts;
  layouts.reserve(params_.size());
  for (const Tensor& param : params_) {
    distributed::Hash hash;
    for (const std::int64_t size : param.shape()) hash.add(size);
    layouts.push_back(hash.value());
  }
  check_layouts(group_, layouts);
}

void GradientExchange::finish(Note note) {
  do_host_work(kOp, {}, params_,
               [self = shared_from_this(), first = next_, kind = kind_, note = std::move(note)](
                   std::span<const Tensor>) { return self->finish_now(first, kind, note), true; });
  if (capture_hook() == nullptr || kind_ == Kind::kWhole) return;
  for (const Tensor& param : params_) param.clear_grad();
}

void GradientExchange::finish_now(std::size_t first, Kind kind, const Note& note) {
  const WithoutCallListener not_of_the_step;
  for (std::size_t bucket = first; bucket < buckets_.size(); ++bucket) send(bucket, kind, false);
  group_.wait();
  check_same(note);
  for (const auto& bucket : buckets_) bucket->receive();
}

// One number is exchanged if all is well.
void GradientExchange::check_same(const Note& note) const {
  std::vector<std::uint64_t> layouts;
  layouts.reserve(params_.size());
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    const std::vector<std::uint64_t>& some = (*bucket)->layouts();
    layouts.insert(layouts.end(), some.rbegin(), some.rend());
  }
  distributed::Hash digest;
  digest.add(std::bit_cast<std::uint64_t>(note.number ? note.number() : 0.0));
  for (const std::uint64_t layout : layouts) digest.add(layout);
  const std::uint64_t own = digest.value();
  const auto all = distributed::gathered(group_, std::span(&own, 1));
  if (std::ranges::all_of(all, [&](std::uint64_t other) { return other == own; })) return;
  if (note.explain) note.explain();
  check_layouts(group_, layouts);
}

// This process has posted no more than those that go on, so what it has posted comes to an end.
void GradientExchange::abandon() noexcept {
  try {
    group_.wait();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the first exception is being handled
  }
  for (const auto& bucket : buckets_) bucket->drop();
}

}  // namespace mezzo::optim
