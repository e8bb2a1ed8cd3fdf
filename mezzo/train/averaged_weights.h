// AveragedWeights: a moving average of a network's weights, for loops of one's own.
// ExponentialMovingAverage keeps one in fit().
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
  // Update n, counted from 0, keeps at most (1 + n) / (10 + n): an average that is young follows
  // the training instead of remembering how the weights began.
  bool warmup = false;
  // Floating-point buffers, such as running statistics, are averaged as parameters are (timm's
  // ModelEmaV2); else they are copied (the default of PyTorch's AveragedModel). Counters always are
  // copied.
  bool average_buffers = true;
};

// Begins with the weights that the network has. Averages are f32 also where parameters have 16
// bits: with a decay of 0.999 a bf16 average would round every update away.
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
  // The network must outlive this, or not be used by it any more. Throws ArgumentError for another
  // decay than those above.
  explicit AveragedWeights(nn::Module& net, AverageOptions options = {});

  // average += (1 - decay) * (weight - average) on the network's device, not recorded.
  void update();
  std::int64_t updates() const { return updates_; }
  // That of the next update.
  double decay() const;

  // The averages under the names of the network's state(): not copies.
  std::vector<NamedTensor> state() const;
  // Takes such a state back, which is copied. Throws ArgumentError, and changes nothing, if names
  // or shapes are not those of the network.
  void load(std::span<const NamedTensor> state, std::int64_t updates);
  // Whether the network is that of this average, with the same parameters and buffers.
  bool is_of(const nn::Module& net) const;

  // While it exists, the network has the averages as its weights. What it had itself is set aside
  // and not touched, and so are optimizers, captured steps and copies in other dtypes that belong
  // to it. Nothing may be trained meanwhile. Uses that are nested end in reverse order.
  class InUse {
   public:
    explicit InUse(const AveragedWeights& average);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    // The memory of a weight, and which tensor in it.
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
    kShared,  // another name of an earlier one
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
