#include "mezzo/ops/fusion/pending_norm.h"

#include <array>
#include <utility>

#include "mezzo/core/cpu.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo {
namespace {

using PendingNormInput = BatchNormInput;

class NormContents final : public LazyContents {
 public:
  explicit NormContents(PendingNorm norm) : norm_(std::move(norm)) {
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
               Inputs(all).first(adds ? kInputs : PendingNormInput::kResidual), {&y, 1},
               norm_.attrs);
  }

  bool is_current() const override {
    const auto all = inputs();
    for (std::size_t i = 0; i < versions_.size(); ++i) {
      if (version_of(*all[i]) != versions_[i]) return false;
    }
    return true;
  }

  const PendingNorm& norm() const { return norm_; }

 private:
  static constexpr std::size_t kInputs = PendingNormInput::kResidual + 1;

  // The inputs in the order of BatchNormInput.
  std::array<const Tensor*, kInputs> inputs() const {
    return {&norm_.x, &norm_.weight, &norm_.bias, &norm_.mean, &norm_.var, &norm_.residual};
  }
  static std::uint64_t version_of(const Tensor& tensor) {
    return tensor.defined() ? tensor.version() : 0;
  }

  PendingNorm norm_;
  std::array<std::uint64_t, kInputs> versions_{};
};

Tensor without_history(const NodeInput& input) {
  return input.saved.defined() ? input.saved.detach() : Tensor();
}

}  // namespace

bool is_norm_recompute_worth_it(DType dtype, Device device) {
  return is_lower(dtype) && device == kCpuDevice && has_vectors() &&
         !is_kernel_disabled(Switch::kNormRecompute);
}

Tensor make_pending_norm(PendingNorm norm) {
  norm.attrs.training = false;
  const Tensor x = norm.x;
  const Format format = x.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const Ref<Storage> storage = make_ref<Storage>(
      x.bytes(), x.device(), Ref<LazyContents>(new NormContents(std::move(norm))));
  return Tensor(
      make_ref<TensorImpl>(storage, 0, x.shape(), strides_for(x.shape(), format), x.dtype()));
}

Tensor recompute_norm(Node& norm) {
  // During a capture nothing is recomputed here: a graph pass does it, which knows when it is worth
  // it.
  if (capture_hook() != nullptr || norm.is_released()) return {};
  const auto& attrs = norm.attrs().as<BatchNormAttrs>();
  const auto inputs = norm.inputs();
  const Tensor& x = inputs[PendingNormInput::kX].saved;
  if (!attrs.training || !x.defined() || x.numel() == 0 ||
      !is_norm_recompute_worth_it(x.dtype(), x.device())) {
    return {};
  }
  const bool adds =
      inputs.size() > PendingNormInput::kResidual && inputs[PendingNormInput::kResidual].present;
  if (adds && !inputs[PendingNormInput::kResidual].saved.defined()) return {};
  NodeOutput& y = norm.outputs()[0];
  y.saved = Tensor();
  y.is_kept = false;
  return make_pending_norm({x.detach(), without_history(inputs[PendingNormInput::kWeight]),
                            without_history(inputs[PendingNormInput::kBias]),
                            norm.outputs()[1].saved, norm.outputs()[2].saved,
                            adds ? without_history(inputs[PendingNormInput::kResidual]) : Tensor(),
                            attrs});
}

const PendingNorm* pending_norm_of(const Tensor& tensor) {
  const Storage& storage = *tensor.storage();
  if (storage.is_materialized()) return nullptr;
  const auto* const contents = dynamic_cast<const NormContents*>(storage.lazy_contents());
  const bool is_whole = contents != nullptr && tensor.shape() == contents->norm().x.shape() &&
                        tensor.offset() == 0 && contents->is_current();
  return is_whole ? &contents->norm() : nullptr;
}

}  // namespace mezzo
