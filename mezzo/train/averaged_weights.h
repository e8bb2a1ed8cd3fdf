// AveragedWeights: a moving average of a network's weights, for the user's own training loops. In
// fit(), use ExponentialMovingAverage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/core/tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::train {

struct AverageOptions {
  // The part of the old average that each update keeps, at least 0 and below 1.
  double decay = 0.999;
  // Update n, counted from 0, keeps at most (1 + n) / (10 + n). A young average then follows the
  // training instead of remembering the initial weights.
  bool warmup = false;
  // Average floating-point buffers, such as running statistics, like parameters (timm's
  // ModelEmaV2). Otherwise they are copied (the default of PyTorch's AveragedModel). Counters are
  // always copied.
  bool average_buffers = true;
};

// The average starts with the network's current weights. Averages are f32 even if parameters have
// 16 bits: with a decay of 0.999, a bf16 average would round every update away.
//
//   train::AveragedWeights average(net, {.decay = 0.999});
//   for (...) {
//     step(x, labels);
//     average.update();
//   }
//   {
//     const train::AveragedWeights::InUse in_use(average);  // net computes with the averages
//     evaluate(net);
//   }
//   io::write_safetensors("average.safetensors", average.state());
class AveragedWeights {
 public:
  // The network must outlive the last use of this object. Throws ArgumentError for a decay out of
  // range.
  explicit AveragedWeights(nn::Module& net, AverageOptions options = {});

  // average += (1 - decay) * (weight - average) on the network's device, without recording.
  void update();
  std::int64_t updates() const { return updates_; }
  // The decay of the next update.
  double decay() const;

  // The averages under the names of the network's state(); these are not copies.
  std::vector<NamedTensor> state() const;
  // Restores such a state by copying it. Throws ArgumentError, and changes nothing, if names or
  // shapes are not those of the network.
  void load(std::span<const NamedTensor> state, std::int64_t updates);
  // Whether this average belongs to that network, with the same parameters and buffers.
  bool is_of(const nn::Module& net) const;

  // While it exists, the network computes with the averages. Its own weights are set aside
  // unchanged, together with the optimizers, captured steps and copies in other dtypes that belong
  // to them. Nothing may be trained meanwhile. Nested uses must end in reverse order.
  class InUse {
   public:
    explicit InUse(const AveragedWeights& average);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    // The memory of a weight, and the tensor that uses it.
    struct Place {
      Tensor weight;
      Ref<Storage> storage;
      std::int64_t offset = 0;
      Strides strides{};
    };
    std::vector<Place> own_;
  };

 private:
  enum class Kind : std::uint8_t {
    kAveraged,
    kCopied,
    kShared,  // another name of an earlier weight
  };
  struct Entry {
    std::string name;
    Tensor weight;
    Tensor average;
    Kind kind;
  };

  Entry make_entry(const NamedTensor& named, bool is_buffer) const;
  std::unordered_map<const TensorImpl*, Tensor> by_weight(std::span<const NamedTensor> state) const;
  void share_averages();

  AverageOptions options_;
  std::vector<Entry> entries_;
  std::int64_t updates_ = 0;
};

}  // namespace mezzo::train
