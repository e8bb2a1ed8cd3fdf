#include "mezzo/ops/cast.h"

#include <atomic>

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/node.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {
namespace {

struct CastAttrs {
  DType dtype = DType::kF32;
  static constexpr auto kFields = std::tuple(Field{"dtype", &CastAttrs::dtype});
  bool operator==(const CastAttrs&) const = default;
};

struct FormatAttrs {
  Format format = Format::kContiguous;
  static constexpr auto kFields = std::tuple(Field{"format", &FormatAttrs::format});
  bool operator==(const FormatAttrs&) const = default;
};

constexpr std::uint64_t kCastCopy = 0x63617374;  // DerivedKey::kind of plain 16-bit copies

// The contents of a parameter's 16-bit copy, filled on demand. They hold the parameter's memory,
// not the parameter itself, which drops its copies when it is destroyed.
class CastContents final : public LazyContents {
 public:
  CastContents(const Tensor& source, DType dtype)
      : source_(source.detach()), version_(source.version()), dtype_(dtype) {}

  void fill(void* destination) override;
  bool is_current() const override { return source_.version() == version_; }
  const Tensor& source() const { return source_; }

  // Whether a cast has returned the copy since it was last renewed.
  void set_in_use(bool in_use) { in_use_.store(in_use, std::memory_order_relaxed); }
  bool is_in_use() const { return in_use_.load(std::memory_order_relaxed); }

  // Whether only the updates that renew it have written the copy. A user may have written into the
  // result of a cast; such changes are not part of the parameter.
  bool is_intact(const Storage& copy) const {
    return copy.version() == copy_version_.load(std::memory_order_relaxed);
  }
  void set_renewed(const Storage& copy) {
    copy_version_.store(copy.version(), std::memory_order_relaxed);
  }

 private:
  Tensor source_;
  std::uint64_t version_;
  DType dtype_;
  std::atomic<bool> in_use_{true};
  std::atomic<std::uint64_t> copy_version_{0};
};

}  // namespace

namespace ops {

extern const OpDef cast{
    .name = "cast",
    .doc = "x in another dtype, rounded to nearest, ties to even",
    .precision = {.cast_mask = 0, .reason = "it is an explicitly requested cast"},
    .infer =
        [](Infer& infer) {
          infer.output(infer.shape(0), infer.attrs<CastAttrs>().dtype, infer.input(0).format());
        },
    .backward =
        [](Backward& ctx) {
          if (is_floating(ctx.input_dtype(0)))
            ctx.set(0, mezzo::cast(ctx.grad(), ctx.input_dtype(0)));
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4, 5}}}, CastAttrs{DType::kF32}},
              {{{{7}}}, CastAttrs{DType::kBf16}},
              {{{{33}, -70000, 70000}}, CastAttrs{DType::kF16}},
              {{{{33}, -440, 440}}, CastAttrs{DType::kE4m3}},
              {{{{33}, -50000, 50000}}, CastAttrs{DType::kE5m2}},
              {{{{}}}, CastAttrs{DType::kF16}},
              {{{{0, 3}}}, CastAttrs{DType::kBf16}}};
    },
    .exact = true,
    .takes_eight_bits = true,
    .takes_f32_grad = true,
};

extern const OpDef to_format{
    .name = "to_format",
    .doc = "x copied into a dense block of the given memory format",
    .precision = {.cast_mask = 0, .reason = "moves data without arithmetic"},
    .infer =
        [](Infer& infer) {
          const Format format = infer.attrs<FormatAttrs>().format;
          infer.check(format != Format::kChannelsLast || infer.shape(0).rank() == 4,
                      "channels-last is for 4 dimensions, the shape is ", infer.shape(0),
                      ". Use Format::kContiguous");
          infer.output(infer.shape(0), infer.dtype(0), format);
        },
    .backward = [](Backward& ctx) { ctx.set(0, ctx.grad()); },
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4, 5}}}, FormatAttrs{Format::kChannelsLast}},
              {{{{2, 3, 4, 5}}}, FormatAttrs{Format::kContiguous}},
              {{{{3, 1}}}, FormatAttrs{}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {
          {{{{2, 3}}}, FormatAttrs{Format::kChannelsLast}, "channels-last is for 4 dimensions"}};
    },
    .exact = true,
    .takes_eight_bits = true,
};

}  // namespace ops

namespace {

void CastContents::fill(void* destination) {
  // A tensor over the new block, which is lent for the copy.
  const Device device = source_.device();
  const Tensor wanted = mezzo::empty(source_.shape(), dtype_, source_.format(), device);
  convert_into(source_, wanted);
  copy_bytes(destination, device, wanted.address(), device, wanted.bytes());
}

// Whether x is a trained leaf, whose copies are worth keeping.
bool is_parameter(const Tensor& x) {
  const AutogradMeta* meta = x.autograd_meta();
  return meta != nullptr && meta->requires_grad && !meta->node && x.is_one_block();
}

DerivedKey copy_key(const Tensor& x, DType dtype) {
  return derived_key(x, kCastCopy, static_cast<std::uint64_t>(dtype));
}

// The recipe of a storage that is a parameter's copy; null for any other.
CastContents* contents_of(const Storage& storage) {
  return dynamic_cast<CastContents*>(storage.lazy_contents());
}

bool is_in_use(const Storage& copy) {
  const CastContents* contents = contents_of(copy);
  return copy.is_materialized() && contents != nullptr && contents->is_in_use();
}

void set_in_use(const Storage& copy, bool in_use) {
  if (CastContents* contents = contents_of(copy)) contents->set_in_use(in_use);
}

// The copy of a parameter at its current version; null if there is none or somebody has written
// into it.
Ref<RefCounted> intact_copy(const Tensor& x, DType dtype) {
  Ref<RefCounted> found = x.storage()->derived().find(copy_key(x, dtype), x.version());
  if (!found) return found;
  const auto& storage = static_cast<const Storage&>(*found);
  const CastContents* contents = contents_of(storage);
  return contents == nullptr || contents->is_intact(storage) ? found : nullptr;
}

// A 16-bit copy of x that is filled when it is read.
Ref<Storage> pending_copy(const Tensor& x, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(x.numel()) * size_of(dtype);
  return make_ref<Storage>(bytes, x.device(), Ref<LazyContents>(new CastContents(x, dtype)));
}

// A new handle to the shared copy of a parameter at its current version, so that its history can be
// recorded without marking the shared copy.
Tensor parameter_copy(const Tensor& x, DType dtype) {
  Ref<RefCounted> found = intact_copy(x, dtype);
  if (!found) {
    found = Ref<RefCounted>(pending_copy(x, dtype).get());
    x.storage()->derived().put(copy_key(x, dtype), x.version(), found);
  }
  const Ref<Storage> storage(static_cast<Storage*>(found.get()));
  set_in_use(*storage, true);
  return Tensor(
      make_ref<TensorImpl>(storage, 0, x.shape(), strides_for(x.shape(), x.format()), dtype));
}

// True if a cast to the dtype that x already has still counts as a call.
bool is_noted(const Tensor& x, DType dtype) {
  CaptureHook* hook = capture_hook();
  return hook != nullptr && is_floating(x.dtype()) && is_floating(dtype) &&
         hook->notes_cast_to_same(x);
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype && !is_noted(x, dtype)) return x;
  const CastAttrs attrs{dtype};
  if (is_parameter(x) && is_lower(dtype) && capture_hook() == nullptr) {
    Tensor copy = parameter_copy(x, dtype);
    const Tensor* input = &x;
    const Inputs inputs(&input, 1);
    if (should_record(ops::cast, inputs)) record(ops::cast, attrs, inputs, {&copy, 1});
    return copy;
  }
  return call_one(ops::cast, {&x}, attrs);
}

void record_cast(const Tensor& x, Tensor& copy) {
  const Tensor* input = &x;
  record(ops::cast, CastAttrs{copy.dtype()}, {&input, 1}, {&copy, 1});
}

Attrs cast_attrs(DType dtype) { return CastAttrs{dtype}; }

Tensor widen(const Tensor& x) {
  const bool may_be_lower = x.defined() && is_trainable(x.dtype());
  return may_be_lower ? cast(x, DType::kF32) : x;
}

Tensor pending_source(const Tensor& x) {
  const Storage& storage = *x.storage();
  if (storage.is_materialized()) return {};
  const CastContents* contents = contents_of(storage);
  if (contents == nullptr || !contents->is_current()) return {};
  const Tensor& parameter = contents->source();
  if (parameter.dtype() != DType::kF32) return {};
  // The copy's elements have the parameter's layout, so x is the same view of both.
  return alias(parameter, x.shape(), x.strides(), parameter.offset() + x.offset());
}

Tensor copied_parameter(const Tensor& x) {
  const CastContents* contents = contents_of(*x.storage());
  return contents != nullptr ? contents->source() : Tensor();
}

RenewedCopy RenewedCopy::find(const Tensor& param) {
  RenewedCopy renewed;
  param.storage()->fill_held_copies();
  if (param.dtype() != DType::kF32) return renewed;
  for (const DType dtype : kLowerDTypes) {
    const Ref<RefCounted> found = intact_copy(param, dtype);
    if (!found) continue;
    const bool is_held = found->use_count() > 2;  // the entry and `found` hold two references
    Ref<Storage> storage(static_cast<Storage*>(found.get()));
    if (!storage->is_materialized()) {
      renewed.find_packed(param, *storage, dtype);
    } else if (!is_held && is_in_use(*storage)) {
      renewed.storage_ = std::move(storage);
      renewed.dtype_ = dtype;
    }
    if (renewed) return renewed;
  }
  renewed.find_packed(param, *param.storage(), DType::kF32);
  return renewed;
}

// Searches the copies of the whole parameter: kernels may have packed views of it, too.
void RenewedCopy::find_packed(const Tensor& param, Storage& source, DType dtype) {
  const bool is_own = dtype == DType::kF32;
  const std::int64_t offset = is_own ? param.offset() : 0;
  const Strides strides = is_own ? param.strides() : strides_for(param.shape(), param.format());
  for (const auto& [key, version, copy] : source.derived().all(source.version())) {
    auto* const packed = dynamic_cast<PackedCopy*>(copy.get());
    if (packed == nullptr || key.offset != offset || key.shape != param.shape() ||
        key.strides != strides) {
      continue;
    }
    // All copies must have the same grid: they are written patch by patch while the patch is in the
    // caches.
    if (!packed_.empty() && packed->grid() != packed_.front()->grid()) continue;
    if (Ref<PackedCopy> next = packed->renewed(param)) {
      packed_.push_back(std::move(next));
      keys_.push_back(key);
      dtype_ = dtype;
    }
  }
}

void RenewedCopy::keep(const Tensor& param) const {
  DerivedCopies& derived = param.storage()->derived();
  if (storage_) {
    storage_->bump_version();  // copies of the copy in other layouts are stale
    if (CastContents* contents = contents_of(*storage_)) contents->set_renewed(*storage_);
    set_in_use(*storage_, false);
    derived.put(copy_key(param, dtype_), param.version(), Ref<RefCounted>(storage_.get()));
    return;
  }
  Ref<Storage> source = param.storage();
  if (dtype_ != DType::kF32) {
    source = pending_copy(param, dtype_);
    derived.put(copy_key(param, dtype_), param.version(), Ref<RefCounted>(source.get()));
  }
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    source->derived().put(keys_[i], source->version(), Ref<RefCounted>(packed_[i].get()));
  }
}

Tensor Tensor::astype(DType dtype) const { return cast(*this, dtype); }

Tensor to_format(const Tensor& x, Format format) {
  if (x.is_dense(format)) return x;
  return call_one(ops::to_format, {&x}, FormatAttrs{format});
}

void convert_into(const Tensor& x, const Tensor& destination) {
  call_into(ops::cast, {&x}, CastAttrs{destination.dtype()}, destination);
}

}  // namespace mezzo
