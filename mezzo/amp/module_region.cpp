#include "mezzo/amp/module_region.h"

#include <memory>
#include <utility>

#include "mezzo/ops/cast.h"

namespace mezzo::amp {
namespace {

// Opens the region of a policy, if there is one, around a module that is called from outside of
// modules.
class RegionHook final : public nn::ForwardHook {
 public:
  explicit RegionHook(std::optional<Policy> policy) : policy_(std::move(policy)) {}

  nn::Tensors around(nn::Module& /*module*/, const nn::Tensors& inputs,
                     const Forward& forward) override {
    std::optional<Autocast> region;
    if (policy_.has_value()) region.emplace(*policy_);
    nn::Tensors results = forward(inputs);
    for (Tensor& result : results) {
      const bool widens = result.defined() && takes_part(result.dtype());
      if (widens) result = result.astype(DType::kF32);
    }
    return results;
  }
  bool is_precision() const override { return true; }

 private:
  std::optional<Policy> policy_;
};

std::optional<Policy> policy_or_around(const std::optional<Policy>& policy) {
  if (policy.has_value() || !is_autocast_enabled()) return policy;
  return autocast_policy();
}

}  // namespace

ModuleRegion::ModuleRegion(const std::optional<Policy>& policy)
    : around_(std::make_shared<RegionHook>(policy_or_around(policy))) {}

}  // namespace mezzo::amp
