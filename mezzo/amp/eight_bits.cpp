#include "mezzo/amp/eight_bits.h"

#include <algorithm>
#include <utility>

#include "mezzo/amp/module_precision.h"
#include "mezzo/core/moves.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/ops/delayed_scale.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/node.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::amp {
namespace {

constexpr const char* kScales = "scales";

// The parts of a name in state(), and where they are.
struct Part {
  const char* role;
  DelayedScale ProductScales::*scale;
};
constexpr Part kParts[] = {
    {"x", &ProductScales::x}, {"weight", &ProductScales::weight}, {"grad", &ProductScales::grad}};

bool is_product_layer(const nn::Module& module) {
  return module.children().empty() &&
         std::ranges::any_of(module.own_parameters(), [](const nn::Module::Member& member) {
           return member.tensor->rank() >= 2;
         });
}

// Layers with a weight, in the order of registration.
std::vector<const nn::Module*> product_layers(nn::Module& net) {
  std::vector<const nn::Module*> layers;
  for (const nn::Module::NamedModule& entry : net.named_modules()) {
    if (is_product_layer(*entry.module)) layers.push_back(entry.module);
  }
  return layers;
}

}  // namespace

std::shared_ptr<const ProductScales> ScaleHistories::of(const std::string& name, Device device) {
  advance_after_backward();
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const ProductScales>& found = scales_[name];
  if (found != nullptr && found->x.scale.device() == device) return found;
  if (found == nullptr) {
    const auto make = [&] { return make_delayed_scale(recipe_.history, device); };
    found = std::make_shared<ProductScales>(ProductScales{make(), make(), make(), went_back_});
  } else {
    const auto moved = [&](const DelayedScale& scale) {
      return DelayedScale{scale.scale.to(device), scale.history.to(device)};
    };
    found = std::make_shared<ProductScales>(
        ProductScales{moved(found->x), moved(found->weight), moved(found->grad), went_back_});
  }
  note_move();  // recordings hold the list of all scales
  return found;
}

void ScaleHistories::begin_forward(bool trains) {
  if (is_held_) return;
  takes_notes_ = trains;
  if (!trains) return;
  const auto self = shared_from_this();
  do_queued_work(
      "scales.advance", {}, {},
      [self] {
        self->went_back_->store(false);
        count_change(self->advancing());
      },
      [self](std::span<const Tensor>) { mezzo::advance(self->advancing()); });
}

std::vector<AdvancingScale> ScaleHistories::advancing() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdvancingScale> all;
  for (const auto& [name, scales] : scales_) {
    all.push_back({scales->x, recipe_.dtype, recipe_.margin});
    all.push_back({scales->weight, recipe_.dtype, recipe_.margin});
    all.push_back({scales->grad, recipe_.grad_dtype, recipe_.margin});
  }
  return all;
}

void ScaleHistories::advance_all() {
  went_back_->store(false);
  mezzo::advance(advancing());
}

// Steps may follow each other within one region. A captured step has its own region.
void ScaleHistories::advance_after_backward() {
  const bool is_forward = differentiated_node() == nullptr && capture_hook() == nullptr;
  if (is_forward && takes_notes_ && !is_held_ && went_back_->load()) advance_all();
}

std::vector<NamedTensor> ScaleHistories::state() const {
  const std::lock_guard lock(mutex_);
  std::vector<NamedTensor> state;
  for (const auto& [name, scales] : scales_) {
    for (const Part& part : kParts) {
      const DelayedScale& scale = (*scales).*part.scale;
      state.push_back({concat(name, '.', part.role, ".scale"), copy_of(scale.scale)});
      state.push_back({concat(name, '.', part.role, ".history"), copy_of(scale.history)});
    }
  }
  return state;
}

void ScaleHistories::load_state(const std::vector<NamedTensor>& state) {
  Scales loaded;
  std::size_t taken = 0;
  const auto find = [&](const std::string& name, const Shape& shape) {
    const auto found = std::ranges::find(state, name, &NamedTensor::name);
    check_arg(found != state.end(), kScales, "the state has no `", name,
              "`. Give what state() of the same recipe returned");
    check_arg(found->tensor.dtype() == DType::kF32 && found->tensor.shape() == shape, kScales, "`",
              name, "` is ", found->tensor, ", not f32", shape,
              ". The recipe's history must be what it was");
    ++taken;
    return copy_of(found->tensor);
  };
  for (const NamedTensor& entry : state) {
    constexpr std::string_view kFirst = ".x.scale";
    if (!entry.name.ends_with(kFirst)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - kFirst.size());
    auto scales = std::make_shared<ProductScales>();
    scales->went_back = went_back_;
    for (const Part& part : kParts) {
      DelayedScale& scale = (*scales).*part.scale;
      scale.scale = find(concat(name, '.', part.role, ".scale"), {1});
      scale.history = find(concat(name, '.', part.role, ".history"), {recipe_.history});
    }
    loaded[name] = std::move(scales);
  }
  check_arg(taken == state.size(), kScales, "the state has ", state.size() - taken,
            " tensors that are not scales. Give what state() returned");
  const std::lock_guard lock(mutex_);
  take_over(std::move(loaded));
}

// A captured program holds the tensors that are there, so these are overwritten. Products that the
// state does not know begin again.
void ScaleHistories::take_over(Scales loaded) {
  for (const auto& [name, own] : scales_) {
    const auto found = loaded.find(name);
    for (const Part& part : kParts) {
      const DelayedScale& to = (*own).*part.scale;
      if (found == loaded.end()) {
        fill(to.scale, 1);
        fill(to.history, 0);
      } else {
        const DelayedScale& from = (*found->second).*part.scale;
        copy_elements(from.scale, to.scale);
        copy_elements(from.history, to.history);
      }
    }
    loaded[name] = own;
  }
  if (scales_.size() != loaded.size()) note_move();  // as in of()
  scales_ = std::move(loaded);
  went_back_->store(false);
}

void ScaleHistories::share(distributed::ProcessGroup& processes) {
  const std::lock_guard lock(mutex_);
  const NoGrad guard;
  std::vector<Tensor> noted;
  for (const auto& [name, scales] : scales_) {
    for (const Part& part : kParts) {
      noted.push_back(slice(((*scales).*part.scale).history, 0, 0, 1));
    }
  }
  distributed::check_same(processes, kScales, "the number of scales",
                          static_cast<double>(noted.size()),
                          "Train the same network in every process");
  if (noted.empty()) return;
  // On a card they are read and written together: each reading would wait for it.
  std::vector<float> largest = cat(noted).to_vector<float>();
  const std::vector<float> all = distributed::gathered(processes, std::span<const float>(largest));
  for (std::size_t i = 0; i < all.size(); ++i) {
    float& value = largest[i % largest.size()];
    value = std::max(value, all[i]);
  }
  const Tensor shared =
      from_values(largest, {static_cast<std::int64_t>(largest.size())}).to(noted.front().device());
  for (std::size_t i = 0; i < noted.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    copy_elements(slice(shared, 0, at, at + 1), noted[i]);
  }
}

HoldScales::HoldScales(std::shared_ptr<ScaleHistories> histories)
    : histories_(std::move(histories)) {
  if (histories_ == nullptr) return;
  before_ = histories_->is_held();
  histories_->hold(true);
}

HoldScales::~HoldScales() {
  if (histories_ != nullptr) histories_->hold(before_);
}

KeepScales::KeepScales(std::shared_ptr<ScaleHistories> histories)
    : histories_(std::move(histories)), held_(histories_) {
  if (histories_ != nullptr) before_ = histories_->state();
}

KeepScales::~KeepScales() {
  if (histories_ != nullptr) histories_->load_state(before_);
}

std::shared_ptr<const EightBits> make_eight_bits(const ScalingRecipe& recipe,
                                                 std::vector<std::string> keep) {
  check_recipe(recipe, "eight_bits");
  auto result = std::make_shared<EightBits>();
  result->recipe = recipe;
  result->keep = std::move(keep);
  if (recipe.scaling == Scaling::kDelayed) {
    result->histories = std::make_shared<ScaleHistories>(recipe);
  }
  return result;
}

Policy policy_with(Level level, DType lower, Scaling scaling) {
  Policy policy{.level = level, .lower = dtype_beside(lower)};
  if (is_eight_bit(lower)) policy.eight_bits = make_eight_bits(usual_recipe(scaling, lower));
  return policy;
}

namespace {

nn::Module& root_of(nn::Module& module) {
  nn::Module* root = &module;
  while (root->parent() != nullptr) root = root->parent();
  return *root;
}

// Those of another part of the network, whose recipe is the same; null if there are none.
std::shared_ptr<ScaleHistories> shared_histories(nn::Module& net, const ScalingRecipe& recipe) {
  for (const nn::Module::NamedModule& entry : root_of(net).named_modules()) {
    if (entry.module == &net) continue;
    const std::optional<Policy> policy = policy_of(*entry.module);
    if (!policy.has_value() || policy->eight_bits == nullptr) continue;
    const auto& histories = policy->eight_bits->histories;
    if (histories != nullptr && histories->recipe() == recipe) return histories;
  }
  return nullptr;
}

}  // namespace

bool EightBits::keeps(const nn::Module* module) const {
  if (module == nullptr) return false;
  return std::ranges::find(keep_modules, module) != keep_modules.end() ||
         (!keep.empty() && std::ranges::find(keep, module->path()) != keep.end());
}

std::shared_ptr<const EightBits> eight_bits_of(nn::Module& net, const EightBits& said) {
  auto result = std::make_shared<EightBits>(*make_eight_bits(said.recipe, said.keep));
  if (const auto shared = shared_histories(net, said.recipe)) {
    if (result->histories != nullptr) result->histories = shared;
  }
  if (net.parent() != nullptr) return result;
  const std::vector<const nn::Module*> layers = product_layers(net);
  if (layers.empty()) return result;
  // A table of tokens computes nothing: the layer after it is one of many.
  const bool reads_data = dynamic_cast<const nn::Embedding*>(layers.front()) == nullptr;
  if (reads_data) result->keep_modules.push_back(layers.front());
  result->keep_modules.push_back(layers.back());
  return result;
}

std::shared_ptr<ScaleHistories> scale_histories_of(nn::Module& net) {
  for (const nn::Module::NamedModule& entry : net.named_modules()) {
    const std::optional<Policy> policy = policy_of(*entry.module);
    if (policy.has_value() && policy->eight_bits != nullptr && policy->eight_bits->histories) {
      return policy->eight_bits->histories;
    }
  }
  return nullptr;
}

}  // namespace mezzo::amp
