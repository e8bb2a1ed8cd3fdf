#include "mezzo/train/averaged_weights.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::train {
namespace {

constexpr const char* kAverage = "AveragedWeights";

// A copy with the tensor's layout, on its device.
Tensor copied(const Tensor& tensor, DType dtype) {
  const Format format = tensor.is_one_block() ? tensor.format() : Format::kContiguous;
  Tensor copy = empty(tensor.shape(), dtype, format, tensor.device());
  copy_elements(tensor, copy);
  return copy;
}

// Without f32, updates below half a unit in the last place would be lost: that is 2^-9 of
// the average in bf16.
DType average_dtype(DType dtype) { return is_lower(dtype) ? DType::kF32 : dtype; }

}  // namespace

AveragedWeights::AveragedWeights(nn::Module& net, AverageOptions options) : options_(options) {
  check_arg(options.decay >= 0 && options.decay < 1, kAverage,
            "the decay is the part of the average that an update keeps, at least 0 and below 1: ",
            options.decay);
  std::unordered_set<const TensorImpl*> buffers;
  for (const NamedTensor& buffer : net.named_buffers()) buffers.insert(buffer.tensor.impl());
  for (const NamedTensor& named : net.state()) {
    entries_.push_back(make_entry(named, buffers.contains(named.tensor.impl())));
  }
  share_averages();
}

AveragedWeights::Entry AveragedWeights::make_entry(const NamedTensor& named, bool is_buffer) const {
  const auto is_it = [&](const Entry& other) { return other.weight.impl() == named.tensor.impl(); };
  if (std::ranges::any_of(entries_, is_it)) return {named.name, named.tensor, {}, Kind::kShared};
  const DType dtype = named.tensor.dtype();
  const bool is_copied = !is_floating(dtype) || (is_buffer && !options_.average_buffers);
  return {named.name, named.tensor, copied(named.tensor, is_copied ? dtype : average_dtype(dtype)),
          is_copied ? Kind::kCopied : Kind::kAveraged};
}

void AveragedWeights::share_averages() {
  for (Entry& entry : entries_) {
    if (entry.kind != Kind::kShared) continue;
    const TensorImpl* weight = entry.weight.impl();
    entry.average = std::ranges::find(entries_, weight, [](const Entry& other) {
                      return other.weight.impl();
                    })->average;
  }
}

double AveragedWeights::decay() const {
  if (!options_.warmup) return options_.decay;
  const auto n = static_cast<double>(updates_);
  return std::min(options_.decay, (1 + n) / (10 + n));
}

void AveragedWeights::update() {
  const NoGrad no_grad;
  const amp::NoAutocast outside;
  // With this formula, an average that has reached a weight stays there. With decay * average + (1
  // - decay) * weight, f32 rounding would make it drift.
  const double part = 1 - decay();
  for (const Entry& entry : entries_) {
    if (entry.kind == Kind::kCopied) copy_elements(entry.weight, entry.average);
    if (entry.kind != Kind::kAveraged) continue;
    add_into(entry.average, (entry.weight.detach() - entry.average) * part);
  }
  ++updates_;
}

std::vector<NamedTensor> AveragedWeights::state() const {
  std::vector<NamedTensor> state;
  for (const Entry& entry : entries_) state.push_back({entry.name, entry.average});
  return state;
}

// The state's tensor for each weight, under any of its names.
std::unordered_map<const TensorImpl*, Tensor> AveragedWeights::by_weight(
    std::span<const NamedTensor> state) const {
  std::unordered_map<std::string_view, const TensorImpl*> weights;
  for (const Entry& entry : entries_) weights[entry.name] = entry.weight.impl();
  std::unordered_map<const TensorImpl*, Tensor> result;
  for (const NamedTensor& named : state) {
    const auto own = weights.find(named.name);
    check_arg(own != weights.end(), kAverage, "the network has no `", named.name,
              "` of the state. Use the state of the same network");
    result[own->second] = named.tensor;
  }
  return result;
}

void AveragedWeights::load(std::span<const NamedTensor> state, std::int64_t updates) {
  check_arg(updates >= 0, kAverage, "an average of ", updates, " updates. Count them from 0");
  const auto found = by_weight(state);
  std::vector<Tensor> averages;
  for (const Entry& entry : entries_) {
    const Tensor& like = entry.average;
    const auto own = found.find(entry.weight.impl());
    check_arg(own != found.end() && own->second.shape() == like.shape(), kAverage, "of `",
              entry.name, "`, ", like, ", the state has ",
              own != found.end() ? concat(own->second) : "nothing",
              ". Use the state of the same network");
    averages.push_back(empty(like.shape(), like.dtype(), like.format(), like.device()));
    copy_elements(own->second, averages.back());
  }
  // Replaced instead of overwritten, since a checkpoint may still hold the old ones.
  for (std::size_t i = 0; i < averages.size(); ++i) entries_[i].average = std::move(averages[i]);
  share_averages();
  updates_ = updates;
}

bool AveragedWeights::is_of(const nn::Module& net) const {
  const auto same = [](const Entry& entry, const NamedTensor& own) {
    return entry.name == own.name && entry.weight.impl() == own.tensor.impl();
  };
  return std::ranges::equal(entries_, net.state(), same);
}

AveragedWeights::InUse::InUse(const AveragedWeights& average) {
  std::vector<Tensor> shown;  // the averages in the network's own dtypes
  for (const Entry& entry : average.entries_) {
    if (entry.kind == Kind::kShared) continue;
    const DType dtype = entry.weight.dtype();
    const bool fits = entry.average.dtype() == dtype;
    shown.push_back(fits ? entry.average : copied(entry.average, dtype));
    const TensorImpl& own = *entry.weight.impl();
    own_.push_back({entry.weight, own.storage, own.offset, own.strides});
  }
  // Swaps the memory instead of its contents. 16-bit copies, master weights and compensations
  // belong to a version of the memory, which writing the averages and restoring the weights would
  // increment.
  for (std::size_t i = 0; i < own_.size(); ++i) {
    TensorImpl& weight = *own_[i].weight.impl();
    weight.storage = shown[i].storage();
    weight.offset = shown[i].offset();
    weight.strides = shown[i].strides();
  }
}

AveragedWeights::InUse::~InUse() {
  for (Place& own : own_) {
    TensorImpl& weight = *own.weight.impl();
    weight.storage->drop_derived();  // 16-bit copies of averages, which are soon stale
    weight.storage = std::move(own.storage);
    weight.offset = own.offset;
    weight.strides = own.strides;
  }
}

}  // namespace mezzo::train
