#include <algorithm>
#include <utility>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/distributed/tensors.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/bucket_exchanges.h"
#include "mezzo/optim/elements.h"

namespace mezzo::optim {
namespace {

Tensor dense(const Tensor& grad) { return grad.is_one_block() ? grad : copy_of(grad); }

Tensor all_elements(const Tensor& tensor) { return elements_of(tensor, {0, tensor.numel()}); }

// Blocks of all processes in a row, for an exchange to write.
Tensor blocks(std::int64_t length, int processes, DType dtype, Device device) {
  return empty({length * processes}, dtype, Format::kContiguous, device);
}

// The blocks are exchanged in reduce_dtype; sums are f32.
class PackedBlocks {
 public:
  PackedBlocks(std::int64_t length, DType reduce_dtype, int processes, Device device)
      : length_(length),
        share_(static_cast<double>(1.0F / static_cast<float>(processes))),
        packed_(zeros({length * processes}, reduce_dtype, Format::kContiguous, device)) {}

  // Elements [n] of a gradient, to be exchanged at this place of the blocks.
  void put(const Tensor& elements, std::int64_t at) const {
    const Tensor place = elements_of(packed_, {at, at + elements.numel()});
    if (place.dtype() == DType::kF32) return convert_into(elements, place);
    // Adding -0.0 changes no value.
    convert_into(affine(elements.astype(DType::kF32), share_, -0.0), place);
  }

  std::int64_t length() const { return length_; }

  // The mean over the processes of this process's block, in reduce_dtype.
  Tensor exchange(distributed::ProcessGroup& group) {
    const Tensor received = blocks(length_, group.size(), packed_.dtype(), packed_.device());
    distributed::all_to_all(group, packed_, received);
    packed_ = Tensor();
    // f32 is summed where it arrived.
    const Tensor sum = elements_of(received, {0, length_}).astype(DType::kF32);
    for (int i = 1; i < group.size(); ++i) {
      add_into(sum, elements_of(received, {i * length_, (i + 1) * length_}));
    }
    if (received.dtype() == DType::kF32) return affine(sum, share_, -0.0);
    return sum.astype(received.dtype());
  }

 private:
  std::int64_t length_;
  double share_;
  Tensor packed_;
};

class ExchangePacked final : public BucketExchange {
 public:
  ExchangePacked(std::span<const ExchangedParam> params, DType reduce_dtype, int processes)
      : params_(params.begin(), params.end()),
        blocks_(ceil_div(numel_of(params), std::int64_t{processes}), reduce_dtype, processes,
                params.front().param.device()) {
    std::int64_t at = 0;
    for (const ExchangedParam& p : params_) {
      const Tensor& grad = p.param.grad();
      if (grad.defined()) blocks_.put(all_elements(dense(grad.detach())), at);
      at += p.param.numel();
    }
  }

  void run(distributed::ProcessGroup& group) override {
    if (blocks_.length() == 0) return;
    const Tensor mean = blocks_.exchange(group);
    const Tensor all = blocks(blocks_.length(), group.size(), mean.dtype(), mean.device());
    distributed::all_gather(group, mean, all);
    means_ = all.astype(DType::kF32);
  }

  void receive() override {
    std::int64_t at = 0;
    for (const ExchangedParam& p : params_) {
      const ShardRange place{at, at + p.param.numel()};
      at = place.end;
      const Tensor& grad = p.param.grad();
      if (!grad.defined() || place.size() == 0) continue;
      // Elements lie as they did in the gradient, if that was dense.
      const Tensor mean = empty(grad.shape(), DType::kF32, grad.format(), grad.device());
      convert_into(elements_of(means_, place), all_elements(mean));
      p.param.set_grad(mean);
    }
  }

 private:
  static std::int64_t numel_of(std::span<const ExchangedParam> params) {
    std::int64_t count = 0;
    for (const ExchangedParam& p : params) count += p.param.numel();
    return count;
  }

  std::vector<ExchangedParam> params_;
  PackedBlocks blocks_;
  Tensor means_;
};

class ExchangeToParts final : public BucketExchange {
 public:
  ExchangeToParts(std::span<const ExchangedParam> params, DType reduce_dtype, int processes)
      : params_(params.begin(), params.end()),
        processes_(processes),
        blocks_(length_of(params, processes), reduce_dtype, processes,
                params.front().param.device()) {
    std::int64_t at = 0;
    for (const ExchangedParam& p : params_) {
      has_gradient_.push_back(p.param.grad().defined());
      if (has_gradient_.back()) put(p.param, at);
      p.param.clear_grad();
      at += largest_part(p.param.numel(), processes);
    }
  }

  void run(distributed::ProcessGroup& group) override {
    if (blocks_.length() > 0) means_ = blocks_.exchange(group).astype(DType::kF32);
  }

  void receive() override {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const Tensor& part = params_[i].part;
      // A copy, which others do not share: it is changed in place.
      if (has_gradient_[i]) {
        part.set_grad(means_.defined()
                          ? copy_of(elements_of(means_, {at, at + part.numel()}))
                          : zeros(part.shape(), DType::kF32, Format::kContiguous, part.device()));
      }
      at += largest_part(params_[i].param.numel(), processes_);
    }
  }

 private:
  static std::int64_t length_of(std::span<const ExchangedParam> params, int processes) {
    std::int64_t length = 0;
    for (const ExchangedParam& p : params) length += largest_part(p.param.numel(), processes);
    return length;
  }

  // Parts are those of the parameter's memory, so the gradient is laid out like it.
  void put(const Tensor& param, std::int64_t at) const {
    const Tensor grad = dense(to_format(param.grad().detach(), param.format()));
    for (int r = 0; r < processes_; ++r) {
      blocks_.put(elements_of(grad, range_of(grad.numel(), {r, processes_})),
                  r * blocks_.length() + at);
    }
  }

  std::vector<ExchangedParam> params_;
  std::vector<bool> has_gradient_;
  int processes_;
  PackedBlocks blocks_;
  Tensor means_;
};

}  // namespace

std::unique_ptr<BucketExchange> exchange_packed(std::span<const ExchangedParam> params,
                                                DType reduce_dtype, int processes) {
  return std::make_unique<ExchangePacked>(params, reduce_dtype, processes);
}

std::unique_ptr<BucketExchange> exchange_to_parts(std::span<const ExchangedParam> params,
                                                  DType reduce_dtype, int processes) {
  return std::make_unique<ExchangeToParts>(params, reduce_dtype, processes);
}

}  // namespace mezzo::optim
