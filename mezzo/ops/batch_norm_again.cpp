#include "mezzo/ops/batch_norm_again.h"

#include <array>
#include <utility>

#include "mezzo/core/cpu.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/capture_hook.h"
#include "mezzo/ops/dispatch.h"
#include "mezzo/ops/node.h"

namespace mezzo {
namespace {

using AgainIn = BatchNormInput;

class NormContents final : public LazyContents {
 public:
  explicit NormContents(NormAgain norm) : norm_(std::move(norm)) {
    for (std::size_t i = 0; i < versions_.size(); ++i) versions_[i] = version_of(*inputs()[i]);
  }

  void fill(void* destination) override {
    const Tensor& x = norm_.x;
    const Ref<Storage> block =
        make_ref<Storage>(destination, x.bytes(), x.device(), Ref<RefCounted>(this));
    const Format format = x.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
    Tensor y(make_ref<TensorImpl>(block, 0, x.shape(), strides_for(x.shape(), format), x.dtype()));
    const auto all = inputs();
    const bool adds = norm_.residual.defined();
    run_kernel(adds ? ops::batch_norm_add_relu : ops::batch_norm,
               Inputs(all).first(adds ? kInputs : AgainIn::kResidual), {&y, 1}, norm_.attrs);
  }

  bool is_current() const override {
    const auto all = inputs();
    for (std::size_t i = 0; i < versions_.size(); ++i) {
      if (version_of(*all[i]) != versions_[i]) return false;
    }
    return true;
  }

  const NormAgain& norm() const { return norm_; }

 private:
  static constexpr std::size_t kInputs = AgainIn::kResidual + 1;

  // In the order of BatchNormInput.
  std::array<const Tensor*, kInputs> inputs() const {
    return {&norm_.x, &norm_.weight, &norm_.bias, &norm_.mean, &norm_.var, &norm_.residual};
  }
  static std::uint64_t version_of(const Tensor& tensor) {
    return tensor.defined() ? tensor.version() : 0;
  }

  NormAgain norm_;
  std::array<std::uint64_t, kInputs> versions_{};
};

Tensor without_history(const NodeInput& input) {
  return input.saved.defined() ? input.saved.detach() : Tensor();
}

}  // namespace

bool is_norm_worth_again(DType dtype, Device device) {
  return is_lower(dtype) && device == kCpuDevice && has_vectors() &&
         !is_kernel_disabled(Switch::kNormAgain);
}

Tensor norm_when_asked(NormAgain norm) {
  norm.attrs.training = false;
  const Tensor x = norm.x;
  const Format format = x.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const Ref<Storage> storage = make_ref<Storage>(
      x.bytes(), x.device(), Ref<LazyContents>(new NormContents(std::move(norm))));
  return Tensor(
      make_ref<TensorImpl>(storage, 0, x.shape(), strides_for(x.shape(), format), x.dtype()));
}

Tensor norm_again(Node& norm) {
  // A program that is captured is changed by a pass instead, which knows what it is worth.
  if (capture_hook() != nullptr || norm.is_released()) return {};
  const auto& attrs = norm.attrs().as<BatchNormAttrs>();
  const auto inputs = norm.inputs();
  const Tensor& x = inputs[AgainIn::kX].saved;
  if (!attrs.training || !x.defined() || x.numel() == 0 ||
      !is_norm_worth_again(x.dtype(), x.device())) {
    return {};
  }
  const bool adds = inputs.size() > AgainIn::kResidual && inputs[AgainIn::kResidual].present;
  if (adds && !inputs[AgainIn::kResidual].saved.defined()) return {};
  NodeOutput& y = norm.outputs()[0];
  y.saved = Tensor();
  y.is_kept = false;
  return norm_when_asked({x.detach(), without_history(inputs[AgainIn::kWeight]),
                          without_history(inputs[AgainIn::kBias]), norm.outputs()[1].saved,
                          norm.outputs()[2].saved,
                          adds ? without_history(inputs[AgainIn::kResidual]) : Tensor(), attrs});
}

const NormAgain* unfilled_norm(const Tensor& tensor) {
  const Storage& storage = *tensor.storage();
  if (storage.is_materialized()) return nullptr;
  const auto* const contents = dynamic_cast<const NormContents*>(storage.lazy_contents());
  const bool is_whole = contents != nullptr && tensor.shape() == contents->norm().x.shape() &&
                        tensor.offset() == 0 && contents->is_current();
  return is_whole ? &contents->norm() : nullptr;
}

}  // namespace mezzo
