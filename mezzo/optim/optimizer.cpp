#include "mezzo/optim/optimizer.h"

#include <algorithm>
#include <charconv>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/grad_mode.h"

namespace mezzo::optim {

void Optimizer::add_group(const std::vector<Tensor>& params) {
  for (const Tensor& param : params) {
    const std::size_t i = params_.size();
    check_arg(param.defined(), name_, "parameter ", i, " is undefined");
    check_arg(param.dtype() == DType::kF32, name_, "parameter ", i, " (", param,
              ") must be f32: updates are too small for 16 bits. Keep the parameter in f32 and "
              "compute in 16 bits with amp");
    check_arg(param.is_leaf() && param.requires_grad(), name_, "parameter ", i, " (", param,
              ") is not trained. Call set_requires_grad(true) on it");
    check_arg(param.is_dense() || param.is_dense(Format::kChannelsLast), name_, "parameter ", i,
              " (", param, ") is not dense. Train the tensor that it is a view of");
    check_arg(
        std::ranges::none_of(params_, [&](const Tensor& p) { return p.impl() == param.impl(); }),
        name_, "parameter ", i, " (", param, ") was given twice");
    params_.push_back(param);
  }
  ends_.push_back(params_.size());
}

void Optimizer::step(double inv_scale) {
  const NoGrad guard;
  std::vector<std::vector<Active>> active(groups());
  std::size_t group = 0;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    while (i == ends_[group]) ++group;
    const Tensor& param = params_[i];
    const Tensor& grad = param.grad();
    if (!grad.defined()) continue;
    check_arg(grad.dtype() == DType::kF32, name_, "the gradient of parameter ", i, " is ", grad,
              ", it must be f32. Let backward() make it, or cast it with astype(DType::kF32)");
    active[group].push_back({i, to_format(grad.detach(), param.format())});
  }
  for (std::size_t g = 0; g < groups(); ++g) {
    if (!active[g].empty()) update(g, active[g], inv_scale);
  }
}

void Optimizer::zero_grad() {
  for (const Tensor& param : params_) param.clear_grad();
}

void Optimizer::check_group(std::size_t group) const {
  check_arg(group < groups(), name_, "there is no group ", group, ", only ", groups());
}

double Optimizer::lr(std::size_t group) const {
  check_group(group);
  return const_cast<Optimizer*>(this)->lr_of(group);
}

void Optimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < groups(); ++group) set_lr(lr, group);
}

void Optimizer::set_lr(double lr, std::size_t group) {
  check_group(group);
  check_arg(lr >= 0, name_, "the learning rate must not be negative: ", lr);
  lr_of(group) = lr;
}

Tensor Optimizer::zeros_like(std::size_t i) const {
  return zeros(params_[i].shape(), DType::kF32, params_[i].format());
}

std::size_t Optimizer::index_in(std::string_view state_name, std::string_view prefix) const {
  std::size_t index = params_.size();
  if (state_name.starts_with(concat(prefix, "."))) {
    const std::string_view digits = state_name.substr(prefix.size() + 1);
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end) index = params_.size();
  }
  check_arg(index < params_.size(), name_, "has no state called '", state_name, "', expected '",
            prefix, ".<parameter>' with a parameter below ", params_.size());
  return index;
}

void Optimizer::assign(Tensor& state, std::size_t i, std::string_view state_name,
                       const Tensor& tensor) const {
  check_arg(tensor.defined() && tensor.shape() == params_[i].shape(), name_, "the state '",
            state_name, "' is ", tensor, ", parameter ", i, " is ", params_[i]);
  const Tensor copy = zeros_like(i);
  copy_elements(tensor, copy);
  state = copy;
}

void append_state(std::vector<NamedTensor>& out, std::string_view prefix,
                  const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) out.push_back({concat(prefix, ".", i), tensors[i]});
  }
}

}  // namespace mezzo::optim
