// Weights in the layouts of oneDNN's kernels: see packed() in onednn.h.
#include <mutex>
#include <optional>
#include <utility>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/onednn/hash.h"
#include "mezzo/kernels/cpu/onednn/onednn.h"
#include "mezzo/kernels/cpu/onednn/pack_patch.h"
#include "mezzo/kernels/cpu/onednn/pack_weight.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::kernels::onednn {
namespace {

constexpr std::uint64_t kPacked = 0x7061636b;  // DerivedKey::kind of packed weights

// Runs packing so that profiles list it as a reorder, which it is.
template <class Body>
void run_packing(const char* kernel, const Desc& from, const Desc& to, const Body& body) {
  const auto work = [&] {
    return KernelWork{.op = "reorder",
                      .kernel = kernel,
                      .dtype = DType::kF32,
                      .bytes = static_cast<double>(from.get_size() + to.get_size())};
  };
  run_listened(work, body);
}

// The blocks of a weight as the primitive sees it; nullopt if it is not f32.
std::optional<BlockedWeight> blocked_f32(const Tensor& weight, const Shape& dims,
                                         const Shape& strides, const Desc& blocks) {
  if (weight.dtype() != DType::kF32) return {};
  return blocked_weight(dims, strides, blocks);
}

// The memory of a packed copy.
struct PackedBlock final : RefCounted {
  explicit PackedBlock(const Desc& desc) : storage(desc) {}
  PackedBlock(const Desc& desc, Ref<Storage> place) : storage(desc, std::move(place)) {}
  Temporary storage;
};

// One form of a weight: its packed copy, while it exists, and how often it was read.
class PackedWeight final : public PackedCopy {
 public:
  PackedWeight(const Desc& wanted, ReadIn pass) : wanted_(wanted), pass_(pass) {}

  // Packs `source` unless that is done. `is_read_again`: this is known not to be the first read
  // since the weight changed.
  Packed read(const Tensor& source, const Shape& dims, const Shape& strides, bool is_read_again);

  Ref<PackedCopy> renewed(const Tensor& param) override;
  PatchGrid grid() const override { return grid_; }
  void write(const Patch& patch) override {
    pack_patch(*blocked_, grid_, patch, block_->storage.memory.get_data_handle());
  }
  std::size_t element_bytes() const override {
    return dnnl_data_type_size(layout_of(wanted_).type);
  }
  ReadIn pass() const override { return pass_; }
  void let_go() override {
    const std::lock_guard lock(mutex_);
    block_ = nullptr;
  }
  void let_go_if_read() override {
    const std::lock_guard lock(mutex_);
    if (reads_ > 0) block_ = nullptr;
  }

 private:
  Ref<PackedBlock> next_block(const Tensor& param) const;

  Desc wanted_;
  ReadIn pass_;
  std::mutex mutex_;
  std::optional<BlockedWeight> blocked_;  // set if it was packed from f32
  PatchGrid grid_{};                      // without rows if it cannot be packed patch by patch
  Ref<PackedBlock> block_;
  int reads_ = 0;
  bool lasts_ = false;  // the copy is kept after it is read
};

Packed PackedWeight::read(const Tensor& source, const Shape& dims, const Shape& strides,
                          bool is_read_again) {
  const std::lock_guard lock(mutex_);
  lasts_ = lasts_ || is_read_again || reads_ > 0;
  ++reads_;
  Ref<PackedBlock> block = block_;
  if (!block) {
    block = make_ref<PackedBlock>(wanted_);
    const dnnl::memory& to = block->storage.memory;
    const Desc plain = describe(dims, source.dtype(), strides);
    blocked_ = blocked_f32(source, dims, strides, wanted_);
    if (blocked_) {
      grid_ = grid_of(*blocked_);
      run_packing("cpu_pack", plain, wanted_,
                  [&] { pack_weight(*blocked_, source.data<float>(), to.get_data_handle()); });
    } else {
      reorder(memory_of(source, plain), to);
    }
  }
  block_ = lasts_ ? block : nullptr;
  return {block->storage.memory, Ref<RefCounted>(block.get())};
}

// Memory for the next copy; null if the copy is not worth it.
Ref<PackedBlock> PackedWeight::next_block(const Tensor& param) const {
  const std::size_t bytes = wanted_.get_size();
  PackedPlaces* const places = offered_places();
  if (places != nullptr) {
    Ref<Storage> place = places->place_for(param, pass_, bytes);
    return place ? make_ref<PackedBlock>(wanted_, std::move(place)) : nullptr;
  }
  // A copy for the backward pass waits through the forward pass, at whose end memory is scarcest.
  // In convolutional networks, large weights are the first to be read after that. f32 copies take
  // twice as many bytes, beside steps that take three times as long, so none of them waits.
  constexpr std::size_t kLeastWaiting = 512UL << 10;
  const bool is_f32 = element_bytes() == sizeof(float);
  const bool waits = pass_ == ReadIn::kBackward && (is_f32 || bytes < kLeastWaiting);
  const WrittenPastCaches by_updates;
  return waits ? nullptr : make_ref<PackedBlock>(wanted_);
}

Ref<PackedCopy> PackedWeight::renewed(const Tensor& param) {
  const std::lock_guard lock(mutex_);
  if (reads_ == 0 || !blocked_ || grid_.rows == 0) return nullptr;
  Ref<PackedBlock> block = next_block(param);
  if (!block) return nullptr;
  const auto next = make_ref<PackedWeight>(wanted_, pass_);
  next->blocked_ = blocked_;
  next->grid_ = grid_;
  next->block_ = std::move(block);
  next->lasts_ = reads_ > 1;
  return Ref<PackedCopy>(next.get());
}

// packed() of a copy whose strides oneDNN accepts.
Packed packed_copy(const Tensor& weight, const Shape& dims, const Shape& strides,
                   const Desc& wanted, ReadIn pass) {
  const Tensor copy = dense(alias(weight, dims, strides, weight.offset()), Format::kContiguous);
  Packed result = packed(copy, dims, copy.strides(), wanted, pass);
  if (!result.owner) result.owner = Ref<RefCounted>(copy.impl());
  return result;
}

}  // namespace

Packed packed(const Tensor& weight, const Shape& dims, const Shape& strides, const Desc& wanted,
              ReadIn pass) {
  const Desc plain = describe_if_taken(dims, weight.dtype(), strides);
  if (plain.is_zero()) return packed_copy(weight, dims, strides, wanted, pass);
  if (plain == wanted) return {memory_of(weight, plain), nullptr};
  const Tensor parameter = pending_source(weight);
  const Tensor& source = parameter.defined() ? parameter : weight;
  if (!is_worth_keeping(weight)) {
    return PackedWeight(wanted, pass).read(source, dims, strides, false);
  }
  Hash form;
  form.add(hash_of(plain));
  form.add(hash_of(wanted));
  const DerivedKey key = derived_key(weight, kPacked, form.value());
  DerivedCopies& derived = weight.storage()->derived();
  const std::uint64_t version = weight.version();
  Ref<RefCounted> found = derived.find(key, version);
  if (!found) {
    found = Ref<RefCounted>(new PackedWeight(wanted, pass));
    derived.put(key, version, found);
  }
  const bool read_again = is_read_again(weight, dims, strides);
  return static_cast<PackedWeight*>(found.get())->read(source, dims, strides, read_again);
}

void unpacked(const dnnl::memory& from, const Tensor& weight, const Shape& dims,
              const Shape& strides) {
  const Desc plain = describe(dims, weight.dtype(), strides);
  const Desc blocks = from.get_desc();
  const auto blocked = blocked_f32(weight, dims, strides, blocks);
  if (!blocked || !can_unpack(*blocked)) return reorder(from, memory_of(weight, plain));
  run_packing("cpu_unpack", blocks, plain, [&] {
    unpack_weight(*blocked, from.get_data_handle(), weight.mutable_data<float>());
  });
}

}  // namespace mezzo::kernels::onednn
