#include "mezzo/kernels/cpu/onednn/onednn.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mezzo/core/cpu.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/onednn/hash.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::kernels::onednn {
namespace {

constexpr std::uint64_t kReorder = 0x72656f72;  // for keys of primitives
constexpr std::uint64_t kRead = 0x72656164;     // for notes that a weight was read

// The most recently used primitives. A network has a few hundred. The cache is bounded, so that
// ever new shapes do not fill the memory with generated code.
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
  // Never destroyed: oneDNN's own statics may already be gone at exit.
  static auto* const kCache = new PrimitiveCache;
  return *kCache;
}

dnnl::stream& stream() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

}  // namespace

// Hashes a layout field by field: the unused parts of a description are not defined.
std::uint64_t hash_of(const Desc& desc) {
  const Layout layout = layout_of(desc);
  MEZZO_INVARIANT(layout.kind == dnnl_blocked);  // others have no strides, and do not occur here
  Hash hash;
  hash.add(static_cast<std::uint64_t>(layout.type) << 32 | layout.kind << 16 | layout.rank);
  for (int i = 0; i < layout.rank; ++i) {
    hash.add(layout.dims[i]);
    hash.add(layout.padded_dims[i]);
    hash.add(layout.strides[i]);
  }
  for (int i = 0; i < layout.block_count; ++i) {
    hash.add(layout.block_sizes[i]);
    hash.add(layout.block_axes[i]);
  }
  hash.add(layout.extra);
  return hash.value();
}

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
  Tensor room;  // lives until the call is done
  if (const std::size_t bytes = primitive.scratchpad.get_size(); bytes > 0) {
    room = scratch({static_cast<std::int64_t>(bytes)}, DType::kU8);
    map.emplace(DNNL_ARG_SCRATCHPAD, memory_of(room, primitive.scratchpad));
  }
  primitive.primitive.execute(stream(), map);
}

Desc describe(const Shape& dims, DType dtype, const Shape& strides) {
  return {dnnl::memory::dims(dims.begin(), dims.end()), type_of(dtype),
          dnnl::memory::dims(strides.begin(), strides.end())};
}

Desc describe_if_taken(const Shape& dims, DType dtype, const Shape& strides) {
  return describe_or_zero({dims.begin(), dims.end()}, type_of(dtype),
                          {strides.begin(), strides.end()});
}

dnnl::memory memory_of(const Tensor& tensor, const Desc& desc) {
  // oneDNN has no read-only memory, but writes to outputs only.
  return {desc, engine(), const_cast<void*>(tensor.raw_data())};
}

Temporary::Temporary(const Desc& desc)
    : block(empty({static_cast<std::int64_t>(desc.get_size())}, DType::kU8)),
      memory(memory_of(block, desc)) {}

Temporary::Temporary(const Desc& desc, Ref<Storage> place)
    : block(make_ref<TensorImpl>(std::move(place), 0,
                                 Shape{static_cast<std::int64_t>(desc.get_size())}, Shape{1},
                                 DType::kU8)),
      memory(memory_of(block, desc)) {}

void reorder(const dnnl::memory& from, const dnnl::memory& to) {
  const Desc source = from.get_desc();
  const Desc target = to.get_desc();
  Key key(kReorder);
  key.add(static_cast<std::int64_t>(hash_of(source)));
  key.add(static_cast<std::int64_t>(hash_of(target)));
  const auto primitive = find_or_make(key, [&] {
    const dnnl::reorder::primitive_desc pd(engine(), source, engine(), target, attributes());
    return Primitive{dnnl::reorder(pd), target, pd.scratchpad_desc()};
  });
  const auto work = [&] {
    const DType dtype = layout_of(source).type == dnnl_bf16 ? DType::kBf16 : DType::kF32;
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
  // The form as dims and strides, since a form that is read by copy may have no description.
  Hash form;
  for (const std::int64_t size : dims) form.add(static_cast<std::uint64_t>(size));
  for (const std::int64_t stride : strides) form.add(static_cast<std::uint64_t>(stride));
  return derived_key(weight, kRead, form.value());
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
    // Without bf16 instructions, oneDNN emulates them at a third of the speed of f32.
    if (!has_fast_bf16()) return Support::no("the CPU multiplies f32 faster than bf16");
#if defined(__aarch64__)
    // Without Arm's library of kernels, oneDNN adds up products of bf16 in plain loops.
    return Support::no("oneDNN's bf16 is slow on Arm");
#endif
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
      // Without recording there is no training: a plan or an evaluation makes no promise about
      // time.
      if (grad_enabled()) warn_of_widening(input->dtype());
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
    outputs.push_back(
        is_lower(output.dtype()) ? scratch(output.shape(), DType::kF32, output.format()) : output);
  }
  run({pointers, outputs, args.attributes});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_lower(args.outputs[i].dtype())) convert_into(outputs[i], args.outputs[i]);
  }
}

}  // namespace mezzo::kernels::onednn
