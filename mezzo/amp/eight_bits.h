// Products in eight bits: which ones, by which recipe, and the scales of delayed scaling.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/core/named_tensor.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/delayed_scale.h"

namespace mezzo::amp {

// The scales of a network's products under delayed scaling, by the path of the weight.
//
// A history takes note of what a training step casts, and all of them advance by one element when
// the next step begins: in TrainStep; elsewhere where a region begins, or, within one region, with
// the first product after a backward pass. So a scale does not change within a step: what a
// backward pass computes again has the bits of the first time.
class ScaleHistories : public std::enable_shared_from_this<ScaleHistories> {
 public:
  explicit ScaleHistories(const ScalingRecipe& recipe) : recipe_(recipe) {}

  // The scales of the product with that name; new ones for a new name.
  std::shared_ptr<const ProductScales> of(const std::string& name, Device device);
  // At the beginning of a forward pass: if it is one of a training, scales become those of the
  // histories, which move on by one element. Other passes only use the scales.
  void begin_forward(bool trains);
  // Whether the histories take note of what the forward pass casts.
  bool takes_notes() const { return takes_notes_; }
  // What the histories have noted since the last advance becomes the largest in any process, so
  // that all processes have the same scales. Throws ArgumentError if they have other products.
  void share(distributed::ProcessGroup& processes);
  // While true, scales do not advance, so that a step can be made again with the same scales.
  void hold(bool is_held) { is_held_ = is_held; }
  bool is_held() const { return is_held_; }
  const ScalingRecipe& recipe() const { return recipe_; }

  // Copies of all scales and histories: `h.0.mlp.c_fc.weight.grad.scale`.
  std::vector<NamedTensor> state() const;
  // Replaces everything. Throws ArgumentError for names and shapes that state() would not give.
  void load_state(const std::vector<NamedTensor>& state);

 private:
  using Scales = std::map<std::string, std::shared_ptr<const ProductScales>>;

  void take_over(Scales loaded);
  std::vector<AdvancingScale> advancing() const;
  void advance_all();
  void advance_after_backward();

  ScalingRecipe recipe_;
  std::shared_ptr<std::atomic<bool>> went_back_ = std::make_shared<std::atomic<bool>>(false);
  bool is_held_ = false;
  bool takes_notes_ = false;
  mutable std::mutex mutex_;
  Scales scales_;
};

// While it exists, scales do not advance: for further parts of a batch.
class HoldScales {
 public:
  explicit HoldScales(std::shared_ptr<ScaleHistories> histories);  // null: does nothing
  ~HoldScales();
  HoldScales(const HoldScales&) = delete;
  HoldScales& operator=(const HoldScales&) = delete;

 private:
  std::shared_ptr<ScaleHistories> histories_;
  bool before_ = false;
};

// While it exists, scales do not advance; its end brings them and their histories back.
class KeepScales {
 public:
  explicit KeepScales(std::shared_ptr<ScaleHistories> histories);  // null: does nothing
  ~KeepScales();
  KeepScales(const KeepScales&) = delete;
  KeepScales& operator=(const KeepScales&) = delete;

 private:
  std::shared_ptr<ScaleHistories> histories_;
  HoldScales held_;
  std::vector<NamedTensor> before_;
};

// The products of a region that have eight bits: linear, matmul with one matrix on the right, and
// 1x1 convolutions without stride, wherever the region computes them in its lower precision.
struct EightBits {
  ScalingRecipe recipe{};
  // Paths of modules whose own products stay in 16 bits.
  std::vector<std::string> keep{};
  // Further ones, as a network's first and last layer; only their addresses matter.
  std::vector<const nn::Module*> keep_modules{};
  // The operations that have eight bits, as the rows of a plan say; empty: all that can.
  std::vector<std::string> ops{};
  // False if only modules that say so themselves compute in eight bits.
  bool everywhere = true;
  // kDelayed; null otherwise. They are one network's: a policy that trains two networks would mix
  // their scales.
  std::shared_ptr<ScaleHistories> histories{};

  bool keeps(const nn::Module* module) const;
};

// With new histories if the recipe needs them. Throws ArgumentError for a recipe that
// check_recipe() refuses.
std::shared_ptr<const EightBits> make_eight_bits(const ScalingRecipe& recipe,
                                                 std::vector<std::string> keep = {});

// A level with its lower precision, or with e4m3, which leaves the rest to bf16.
Policy policy_with(Level level, DType lower, Scaling scaling = Scaling::kCurrent);

// The dtype of the activations and of everything but products where products have `lower`.
constexpr DType dtype_beside(DType lower) { return is_eight_bit(lower) ? DType::kBf16 : lower; }

// The same for a network: its first layer stays in 16 bits if it computes from the data, and so
// does its last, whose result is the logits. Both are small next to the others, and their errors
// reach every other layer or the loss itself; TransformerEngine and Megatron keep them, too.
// For a part of a network nothing is kept. Parts with the same recipe share one set of histories.
std::shared_ptr<const EightBits> eight_bits_of(nn::Module& net, const EightBits& said);

// The scales that the settings of a network's modules use; null if there are none.
std::shared_ptr<ScaleHistories> scale_histories_of(nn::Module& net);

}  // namespace mezzo::amp
