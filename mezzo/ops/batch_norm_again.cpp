#include "mezzo/ops/batch_norm_again.h"

#include <array>
#include <utility>

#include "mezzo/ops/capture_hook.h"
#include "mezzo/ops/dispatch.h"
#include "mezzo/ops/node.h"
#include "mezzo/ops/registry.h"

namespace mezzo {
namespace {

using In = BatchNormInput;

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
    static const OpDef* const kBatchNorm = find_op("batch_norm");
    run_kernel(*kBatchNorm, inputs(), {&y, 1}, norm_.attrs);
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
  // In the order of BatchNormInput.
  std::array<const Tensor*, 5> inputs() const {
    return {&norm_.x, &norm_.weight, &norm_.bias, &norm_.mean, &norm_.var};
  }
  static std::uint64_t version_of(const Tensor& tensor) {
    return tensor.defined() ? tensor.version() : 0;
  }

  NormAgain norm_;
  std::array<std::uint64_t, 5> versions_{};
};

bool is_worth_it(const Node& norm, const NodeOutput& y, const Tensor& x) {
  return norm.attrs().as<BatchNormAttrs>().training && !norm.is_released() && x.defined() &&
         is_lower(y.spec.dtype) && x.device() == kCpuDevice && x.numel() > 0;
}

}  // namespace

Tensor norm_again(Node& norm) {
  // A program that is captured is changed by a pass instead, which knows what it is worth.
  if (capture_hook() != nullptr) return {};
  const Tensor& x = norm.inputs()[In::kX].saved;
  if (!is_worth_it(norm, norm.outputs()[0], x)) return {};
  BatchNormAttrs attrs = norm.attrs().as<BatchNormAttrs>();
  attrs.training = false;
  NormAgain again{x.detach(), {}, {}, norm.outputs()[1].saved, norm.outputs()[2].saved, attrs};
  const auto parameter = [&](std::size_t i) {
    const NodeInput& input = norm.inputs()[i];
    return input.present ? input.saved.detach() : Tensor();
  };
  again.weight = parameter(In::kWeight);
  again.bias = parameter(In::kBias);
  const TensorSpec& y = norm.outputs()[0].spec;
  const Ref<Storage> storage = make_ref<Storage>(
      x.bytes(), x.device(), Ref<LazyContents>(new NormContents(std::move(again))));
  return Tensor(make_ref<TensorImpl>(storage, 0, y.shape, strides_for(y.shape, y.format), y.dtype));
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
