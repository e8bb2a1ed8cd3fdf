#include "mezzo/kernels/cpu/onednn.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mezzo/core/cpu.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/pack_weight.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/kernel_listener.h"
#include "mezzo/ops/packed_copy.h"

namespace mezzo::kernels::onednn {
namespace {

constexpr std::uint64_t kPacked = 0x7061636b;  // DerivedKey::kind of packed weights
constexpr std::uint64_t kRead = 0x72656164;    // and of notes that a weight was read

// A fast hash of a sequence of numbers: every step multiplies and folds, as wyhash does.
class Hash {
 public:
  void add(std::uint64_t number) {
    const auto product = static_cast<unsigned __int128>(state_ ^ number) * 0x9e3779b97f4a7c15ULL;
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    state_ += 0xa0761d6478bd642fULL;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x8ebc6af09c88c6e3ULL;
};

// The most recently used primitives. A network has a few hundred; a user with ever new shapes must
// not fill the memory with generated code.
class PrimitiveCache {
 public:
  std::shared_ptr<const Primitive> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  void put(const Key& key, std::shared_ptr<const Primitive> primitive) {
    const std::lock_guard lock(mutex_);
    if (entries_.contains(key)) return;  // another thread was first
    order_.emplace_front(key, std::move(primitive));
    entries_.emplace(key, order_.begin());
    if (order_.size() > kMost) {
      entries_.erase(order_.back().first);
      order_.pop_back();
    }
  }

 private:
  static constexpr std::size_t kMost = 2048;
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return key.hash(); }
  };
  using Order = std::list<std::pair<Key, std::shared_ptr<const Primitive>>>;

  std::mutex mutex_;
  Order order_;
  std::unordered_map<Key, Order::iterator, KeyHash> entries_;
};

PrimitiveCache& cache() {
  // Never destroyed: oneDNN's own statics may be gone by then.
  static auto* const kCache = new PrimitiveCache;
  return *kCache;
}

dnnl::stream& stream() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

// What tells layouts apart, field by field: the unused parts of a description are not defined.
std::uint64_t hash_of(const Desc& desc) {
  const dnnl_memory_desc_t& md = desc.data;
  const dnnl_blocking_desc_t& blocks = md.format_desc.blocking;
  Hash hash;
  hash.add(static_cast<std::uint64_t>(md.data_type) << 32 | md.format_kind << 16 | md.ndims);
  for (int i = 0; i < md.ndims; ++i) {
    hash.add(md.dims[i]);
    hash.add(md.padded_dims[i]);
    hash.add(blocks.strides[i]);
  }
  for (int i = 0; i < blocks.inner_nblks; ++i) {
    hash.add(blocks.inner_blks[i]);
    hash.add(blocks.inner_idxs[i]);
  }
  hash.add(md.extra.flags);
  return hash.value();
}

}  // namespace

const dnnl::engine& engine() {
  static const auto* const kEngine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *kEngine;
}

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attr;
}

Key::Key(std::uint64_t family) {
  add(static_cast<std::int64_t>(family));
  add(num_threads());
}

void Key::add(const Shape& shape) {
  add(static_cast<std::int64_t>(shape.rank()));
  for (const std::int64_t size : shape) add(size);
}

std::uint64_t Key::hash() const {
  Hash hash;
  for (std::size_t i = 0; i < count_; ++i) hash.add(static_cast<std::uint64_t>(numbers_[i]));
  return hash.value();
}

bool Key::operator==(const Key& other) const {
  return count_ == other.count_ &&
         std::equal(numbers_.begin(), numbers_.begin() + count_, other.numbers_.begin());
}

std::shared_ptr<const Primitive> find_primitive(const Key& key) { return cache().find(key); }

void keep_primitive(const Key& key, std::shared_ptr<const Primitive> primitive) {
  cache().put(key, std::move(primitive));
}

void execute(const Primitive& primitive, std::initializer_list<Arg> args) {
  std::unordered_map<int, dnnl::memory> map(args.begin(), args.end());
  Tensor scratch;  // lives until the call is done
  if (const std::size_t bytes = primitive.scratchpad.get_size(); bytes > 0) {
    scratch = empty({static_cast<std::int64_t>(bytes)}, DType::kU8);
    map.emplace(DNNL_ARG_SCRATCHPAD, memory_of(scratch, primitive.scratchpad));
  }
  primitive.primitive.execute(stream(), map);
}

Desc describe(const Shape& dims, DType dtype, const Shape& strides) {
  return {dnnl::memory::dims(dims.begin(), dims.end()), type_of(dtype),
          dnnl::memory::dims(strides.begin(), strides.end())};
}

dnnl::memory memory_of(const Tensor& tensor, const Desc& desc) {
  // oneDNN has no read-only memory; it writes to outputs only.
  return {desc, engine(), const_cast<void*>(tensor.raw_data())};
}

Temporary::Temporary(const Desc& desc)
    : block(empty({static_cast<std::int64_t>(desc.get_size())}, DType::kU8)),
      memory(memory_of(block, desc)) {}

void reorder(const dnnl::memory& from, const dnnl::memory& to) {
  const Desc source = from.get_desc();
  const Desc target = to.get_desc();
  Key key(kPacked);
  key.add(static_cast<std::int64_t>(hash_of(source)));
  key.add(static_cast<std::int64_t>(hash_of(target)));
  const auto primitive = find_or_make(key, [&] {
    const dnnl::reorder::primitive_desc pd(engine(), source, engine(), target, attributes());
    return Primitive{dnnl::reorder(pd), target, pd.scratchpad_desc()};
  });
  const auto work = [&] {
    const DType dtype = source.data_type() == type_of(DType::kBf16) ? DType::kBf16 : DType::kF32;
    return KernelWork{.op = "reorder",
                      .kernel = "cpu_onednn",
                      .dtype = dtype,
                      .bytes = static_cast<double>(source.get_size() + target.get_size())};
  };
  run_listened(work, [&] { execute(*primitive, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}); });
}

bool is_worth_keeping(const Tensor& weight) {
  if (weight.storage()->lazy_contents() != nullptr) return true;
  const AutogradMeta* meta = weight.autograd_meta();
  return meta != nullptr && meta->requires_grad && !meta->node;
}

namespace {

DerivedKey read_key(const Tensor& weight, const Shape& dims, const Shape& strides) {
  return derived_key(weight, kRead, hash_of(describe(dims, weight.dtype(), strides)));
}

struct Note final : RefCounted {};

}  // namespace

bool is_read_again(const Tensor& weight, const Shape& dims, const Shape& strides) {
  return is_worth_keeping(weight) &&
         weight.storage()->derived().find(read_key(weight, dims, strides), weight.version());
}

void note_read(const Tensor& weight, const Shape& dims, const Shape& strides) {
  if (!is_worth_keeping(weight)) return;
  weight.storage()->derived().put(read_key(weight, dims, strides), weight.version(),
                                  Ref<RefCounted>(new Note));
}

namespace {

// As reorders in profiles, which they are.
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

// Of a weight as the primitive sees it.
std::optional<BlockedWeight> blocked_f32(const Tensor& weight, const Shape& dims,
                                         const Shape& strides, const Desc& blocks) {
  if (weight.dtype() != DType::kF32) return {};
  return blocked_weight(dims, strides, blocks);
}

// The memory of a packed copy.
struct PackedBlock final : RefCounted {
  explicit PackedBlock(const Desc& desc) : storage(desc) {}
  Temporary storage;
};

// One form of a weight: its packed copy, as long as there is one, and how often it was read.
class PackedWeight final : public PackedCopy {
 public:
  PackedWeight(Desc wanted, ReadIn pass) : wanted_(std::move(wanted)), pass_(pass) {}

  // Packs `source` unless that is done. `is_read_again`: it is known that this is not the first
  // time since the weight changed.
  Packed read(const Tensor& source, const Shape& dims, const Shape& strides, bool is_read_again);

  Ref<PackedCopy> renewed() override;
  std::int64_t part() const override { return rows_.elements * rows_.together; }
  void write(const float* param, std::int64_t begin, std::int64_t end, WorkShare share) override {
    pack_rows(*blocked_, param, block_->storage.memory.get_data_handle(), begin / rows_.elements,
              end / rows_.elements, share);
  }
  std::size_t element_bytes() const override { return dnnl_data_type_size(wanted_.data.data_type); }
  void let_go_if_read() override {
    const std::lock_guard lock(mutex_);
    if (reads_ > 0) block_ = nullptr;
  }

 private:
  bool is_worth_renewing() const;

  Desc wanted_;
  ReadIn pass_;
  std::mutex mutex_;
  std::optional<BlockedWeight> blocked_;  // if it was packed from f32
  WeightRows rows_{};
  Ref<PackedBlock> block_;
  int reads_ = 0;
  bool lasts_ = false;  // the copy is kept when it is read
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
      rows_ = rows_of(*blocked_);
      run_packing("cpu_pack", plain, wanted_,
                  [&] { pack_weight(*blocked_, source.data<float>(), to.get_data_handle()); });
    } else {
      reorder(memory_of(source, plain), to);
    }
  }
  block_ = lasts_ ? block : nullptr;
  return {block->storage.memory, Ref<RefCounted>(block.get())};
}

// What is read in the backward pass waits through the forward pass, at whose end memory is
// scarcest.
bool PackedWeight::is_worth_renewing() const {
  constexpr std::size_t kLeastWaiting = 2UL << 20;
  return pass_ == ReadIn::kForward || wanted_.get_size() >= kLeastWaiting;
}

Ref<PackedCopy> PackedWeight::renewed() {
  const std::lock_guard lock(mutex_);
  if (reads_ == 0 || !blocked_ || rows_.count == 0 || !is_worth_renewing()) return nullptr;
  const auto next = make_ref<PackedWeight>(wanted_, pass_);
  next->blocked_ = blocked_;
  next->rows_ = rows_;
  next->block_ = make_ref<PackedBlock>(wanted_);
  next->lasts_ = reads_ > 1;
  return Ref<PackedCopy>(next.get());
}

}  // namespace

Packed packed(const Tensor& weight, const Shape& dims, const Shape& strides, const Desc& wanted,
              ReadIn pass) {
  const Desc plain = describe(dims, weight.dtype(), strides);
  if (plain == wanted) return {memory_of(weight, plain), nullptr};
  const Tensor parameter = unfilled_source(weight);
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

Tensor as_f32(const Tensor& tensor) {
  return tensor.dtype() == DType::kF32 ? tensor : dense_f32(tensor, tensor.format());
}

void fail_call(const char* op, const KernelArgs& args, const dnnl::error& error) {
  std::string inputs;
  for (const Tensor* input : args.inputs) inputs += concat(inputs.empty() ? "" : ", ", *input);
  fail<DeviceError>(op, "oneDNN failed: ", error.what(), " (status ",
                    static_cast<int>(error.status), "), inputs ", inputs, ", ",
                    args.attributes.to_text());
}

namespace {

bool has_no_elements(const KernelArgs& args) {
  return std::any_of(args.inputs.begin(), args.inputs.end(),
                     [](const Tensor* input) { return input->defined() && input->numel() == 0; });
}

}  // namespace

Support supports_dtypes(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    if (!input->defined() || input->dtype() == DType::kF32) continue;
    if (input->dtype() == DType::kF16) return Support::no("oneDNN does not compute f16 on CPUs");
    if (input->dtype() != DType::kBf16) return Support::no("oneDNN computes f32 and bf16 only");
    // oneDNN makes up for missing instructions at a third of the speed of f32.
    if (!has_fast_bf16()) return Support::no("the CPU multiplies f32 faster than bf16");
  }
  return has_no_elements(args) ? Support::no("an input has no elements") : Support::yes();
}

Support supports_widened(const KernelArgs& args) {
  const Support support = vector_dtypes_only(args);
  if (!support) return support;
  return has_no_elements(args) ? Support::no("an input has no elements") : Support::yes();
}

void run_widened(const KernelArgs& args, void (*run)(const KernelArgs&)) {
  std::vector<Tensor> inputs;
  for (const Tensor* input : args.inputs) {
    if (input->defined() && is_lower(input->dtype())) {
      if (input->dtype() == DType::kBf16) warn_if_bf16_is_widened();
      inputs.push_back(as_f32(*input));
    } else {
      inputs.push_back(*input);
    }
  }
  std::vector<const Tensor*> pointers(inputs.size());
  std::transform(inputs.begin(), inputs.end(), pointers.begin(),
                 [](const Tensor& input) { return &input; });
  std::vector<Tensor> outputs;
  for (const Tensor& output : args.outputs) {
    outputs.push_back(is_lower(output.dtype()) ? empty(output.shape(), DType::kF32, output.format())
                                               : output);
  }
  run({pointers, outputs, args.attributes});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_lower(args.outputs[i].dtype())) convert_into(outputs[i], args.outputs[i]);
  }
}

}  // namespace mezzo::kernels::onednn
