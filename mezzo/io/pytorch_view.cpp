#include "mezzo/io/pytorch_view.h"

#include "mezzo/core/error.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

// The arguments of _rebuild_tensor_v2().
constexpr std::size_t kStorageArgument = 0;
constexpr std::size_t kOffsetArgument = 1;
constexpr std::size_t kSizeArgument = 2;
constexpr std::size_t kStrideArgument = 3;
constexpr std::size_t kMetadataArgument = 6;  // after requires_grad and hooks; may be missing
// The parts of the tuple that names a storage.
constexpr std::size_t kMarkPart = 0;  // always `storage`
constexpr std::size_t kClassPart = 1;
constexpr std::size_t kKeyPart = 2;
constexpr std::size_t kNumelPart = 4;  // after the device
constexpr std::size_t kStorageParts = 5;

class ViewReader {
 public:
  ViewReader(std::string_view source, std::string_view name, const Pickle& pickle)
      : source_(source), name_(name), pickle_(pickle) {}

  PytorchView read(PickleValue tensor) const {
    const std::span<const PickleValue> arguments = pickle_.items(tensor);
    if (arguments.size() != kMetadataArgument && arguments.size() != kMetadataArgument + 1) {
      bad("it is made of ", arguments.size(), " values, expected 6 or 7", kCopyAgain);
    }
    check_metadata(arguments);
    PytorchView view;
    view.storage = storage_of(arguments[kStorageArgument]);
    view.shape = sizes_of(arguments[kSizeArgument], "size");
    view.strides = sizes_of(arguments[kStrideArgument], "stride");
    view.offset = count_of(arguments[kOffsetArgument], "offset");
    check_place(view);
    for (std::size_t axis = 0; axis < view.shape.rank(); ++axis) {
      if (view.shape[axis] <= 1) view.strides[axis] = 0;
    }
    return view;
  }

 private:
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail<FileError>(kPytorchOp, source_, ": tensor ", in_quotes(name_), ": ", parts...);
  }

  void check_metadata(std::span<const PickleValue> arguments) const {
    if (arguments.size() <= kMetadataArgument) return;
    const PickleValue metadata = arguments[kMetadataArgument];
    if (metadata.is(PickleKind::kNone)) return;
    if (metadata.is(PickleKind::kDict) && pickle_.items(metadata).empty()) return;
    bad("it is a negated or conjugated view. Save tensor.resolve_neg()");
  }

  std::int64_t count_of(PickleValue value, std::string_view what) const {
    if (!value.is(PickleKind::kInt)) {
      bad("its ", what, " is ", describe(value.kind), ", expected an integer", kCopyAgain);
    }
    if (value.number < 0) {
      bad("its ", what, " is ", value.number, ", expected at least 0", kCopyAgain);
    }
    return value.number;
  }

  Shape sizes_of(PickleValue value, std::string_view what) const {
    if (!value.is(PickleKind::kTuple)) {
      bad("its ", what, "s are ", describe(value.kind), ", expected a tuple", kCopyAgain);
    }
    const std::span<const PickleValue> sizes = pickle_.items(value);
    if (sizes.size() > kMaxRank) {
      bad("it has ", sizes.size(), " dimensions, mezzo supports ", kMaxRank, ". Reshape it");
    }
    Shape shape;
    for (const PickleValue size : sizes) shape.push_back(count_of(size, what));
    return shape;
  }

  PytorchStorage storage_of(PickleValue value) const {
    if (!value.is(PickleKind::kStorage)) {
      bad("it is made of ", describe(value.kind), ", expected a storage", kCopyAgain);
    }
    const std::span<const PickleValue> parts = pickle_.items(value);
    const bool is_sound = parts.size() == kStorageParts && parts[kMarkPart].is(PickleKind::kText) &&
                          pickle_.text(parts[kMarkPart]) == "storage" &&
                          parts[kClassPart].is(PickleKind::kStorageClass) &&
                          parts[kKeyPart].is(PickleKind::kText);
    if (!is_sound) bad("its storage is not described by a type, a key and a size", kCopyAgain);
    return {.key = pickle_.text(parts[kKeyPart]),
            .dtype = static_cast<DType>(parts[kClassPart].number),
            .numel = count_of(parts[kNumelPart], "storage's size")};
  }

  void check_place(const PytorchView& view) const {
    const PytorchStorage& storage = view.storage;
    const bool is_countable_view = view.shape.rank() == view.strides.rank() &&
                                   is_countable(view.shape, size_of(storage.dtype));
    const Extent extent =
        is_countable_view ? extent_of(view.shape, view.strides, view.offset) : Extent{-1, -1};
    if (extent.begin >= 0 && extent.end <= storage.numel) return;
    bad("its sizes ", view.shape, " with strides ", view.strides, " from element ", view.offset,
        " on exceed its storage of ", storage.numel, " elements", kCopyAgain);
  }

  std::string_view source_;
  std::string_view name_;
  const Pickle& pickle_;
};

}  // namespace

bool PytorchView::is_whole() const {
  std::int64_t stride = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != stride) return false;
    stride *= shape[axis];
  }
  return offset == 0 && stride == storage.numel;
}

PytorchView view_of(std::string_view source, std::string_view name, const Pickle& pickle,
                    PickleValue tensor) {
  return ViewReader(source, name, pickle).read(tensor);
}

}  // namespace mezzo::io
