#include "mezzo/nn/tie.h"

#include <algorithm>

namespace mezzo::nn {
namespace {

constexpr const char* kTieOp = "tie";

// The module's own member at a path of modules and a name: `layer.0.weight`.
Tensor& parameter_at(Module& net, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const bool is_own = dot == std::string_view::npos;
  Module* const module = is_own ? &net : net.find(name.substr(0, dot));
  const std::string_view last = is_own ? name : name.substr(dot + 1);
  if (module != nullptr) {
    const auto members = module->own_parameters();
    const auto found = std::ranges::find(members, last, &Module::Member::name);
    if (found != members.end()) return *found->tensor;
  }
  fail(kTieOp, "there is no parameter `", name, "`. named_parameters() lists them");
}

}  // namespace

void tie(Module& net, std::string_view name, std::string_view with) {
  const Tensor old = parameter_at(net, name);
  const Tensor shared = parameter_at(net, with);
  const bool fits = old.shape() == shared.shape() && old.dtype() == shared.dtype() &&
                    old.device() == shared.device();
  check_arg(fits, kTieOp, "`", name, "` (", old, ") and `", with, "` (", shared,
            ") differ. Make them alike");
  net.apply([&](Module& part) {
    for (const Module::Member& member : part.own_parameters()) {
      if (member.tensor->impl() == old.impl()) *member.tensor = shared;
    }
  });
}

}  // namespace mezzo::nn
