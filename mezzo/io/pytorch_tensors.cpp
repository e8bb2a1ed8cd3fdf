#include "mezzo/io/pytorch_tensors.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/pytorch_view.h"
#include "mezzo/io/row_major.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

// A sound file has few views of one storage, and few elements are repeated by a stride of 0. But a
// damaged one could ask for a storage as often as it has room for a name.
constexpr std::uint64_t kMostTimesFile = 4;

// Different views of one storage have different keys, equal views the same.
using ViewKey = std::vector<std::int64_t>;

ViewKey key_of(const PytorchView& view) {
  ViewKey key{view.offset};
  key.insert(key.end(), view.shape.begin(), view.shape.end());
  key.insert(key.end(), view.strides.begin(), view.strides.end());
  return key;
}

struct StorageToRead {
  PytorchStorage storage{};
  const ZipEntry* entry = nullptr;
  std::map<ViewKey, std::size_t> places{};  // of its views
  std::vector<std::size_t> views{};         // places in TensorReader::views_
};

class TensorReader {
 public:
  TensorReader(const ZipArchive& archive, const std::string& prefix, const Pickle& pickle)
      : archive_(archive), prefix_(prefix), pickle_(pickle) {}

  void add(const NamedPickle& named) {
    const PytorchView view = view_of(source(), named.name, pickle_, named.tensor);
    StorageToRead& storage = storage_of(named.name, view.storage);
    const auto [place, is_new] = storage.places.try_emplace(key_of(view), views_.size());
    places_.push_back(place->second);
    if (!is_new) return;
    add_bytes(static_cast<std::uint64_t>(view.shape.numel()) * size_of(view.storage.dtype));
    storage.views.push_back(views_.size());
    views_.push_back(view);
  }

  // The tensors of all that were added, in that order.
  std::vector<Tensor> read() {
    results_.resize(views_.size());
    for (const StorageToRead& storage : storages_) read_storage(storage);
    std::vector<Tensor> tensors;
    for (const std::size_t place : places_) tensors.push_back(results_[place]);
    return tensors;
  }

 private:
  const std::string& source() const { return archive_.source().name; }

  StorageToRead& storage_of(std::string_view name, const PytorchStorage& storage) {
    const auto [known, is_new] = places_of_storages_.try_emplace(storage.key, storages_.size());
    if (is_new) storages_.push_back({.storage = storage, .entry = &entry_of(name, storage)});
    StorageToRead& result = storages_[known->second];
    if (result.storage.dtype != storage.dtype || result.storage.numel != storage.numel) {
      fail<FileError>(kPytorchOp, source(), ": tensor ", in_quotes(name), ": its storage ",
                      in_quotes(storage.key), " has ", storage.numel, " elements of ",
                      storage.dtype, ", but ", result.storage.numel, " of ", result.storage.dtype,
                      " in another tensor", kCopyAgain);
    }
    return result;
  }

  const ZipEntry& entry_of(std::string_view name, const PytorchStorage& storage) const {
    const ZipEntry* const entry = archive_.find(concat(prefix_, "/data/", storage.key));
    if (entry == nullptr) {
      fail<FileError>(kPytorchOp, source(), ": tensor ", in_quotes(name), ": its storage ",
                      in_quotes(storage.key), " is missing", kCopyAgain);
    }
    archive_.check(*entry);
    const std::size_t bytes = size_of(storage.dtype);
    if (entry->size % bytes != 0 ||
        entry->size / bytes != static_cast<std::uint64_t>(storage.numel)) {
      fail<FileError>(kPytorchOp, source(), ": tensor ", in_quotes(name), ": its storage ",
                      in_quotes(storage.key), " of ", storage.numel, " elements of ", storage.dtype,
                      " has ", entry->size, " bytes", kCopyAgain);
    }
    return *entry;
  }

  void add_bytes(std::uint64_t bytes) {
    const std::uint64_t most = archive_.source().size * kMostTimesFile;
    if (bytes > most - bytes_) {
      fail<FileError>(kPytorchOp, source(), ": its tensors share elements so often that they take ",
                      "more than ", kMostTimesFile, " times its ", archive_.source().size,
                      " bytes. Save tensor.clone() of each");
    }
    bytes_ += bytes;
  }

  void read_storage(const StorageToRead& storage) {
    const Tensor elements = empty({storage.storage.numel}, storage.storage.dtype);
    if (elements.numel() > 0) {
      const std::span bytes(static_cast<std::byte*>(elements.mutable_raw_data()), elements.bytes());
      archive_.read(*storage.entry, bytes);
      if (elements.dtype() == DType::kBool) check_bools(storage, bytes);
    }
    for (const std::size_t place : storage.views) {
      const PytorchView& view = views_[place];
      const bool is_alone = storage.views.size() == 1 && view.is_whole();
      results_[place] = is_alone ? whole(elements, view.shape) : copied(elements, view);
    }
  }

  static Tensor whole(const Tensor& elements, const Shape& shape) {
    return alias(elements, shape, strides_for(shape, Format::kContiguous), 0);
  }

  static Tensor copied(const Tensor& elements, const PytorchView& view) {
    Tensor copy = empty(view.shape, view.storage.dtype);
    if (copy.numel() > 0) {
      copy_elements(alias(elements, view.shape, view.strides, view.offset), copy);
    }
    return copy;
  }

  void check_bools(const StorageToRead& storage, std::span<const std::byte> bytes) const {
    const std::optional<std::size_t> odd = find_odd_bool(bytes);
    if (!odd) return;
    fail<FileError>(kPytorchOp, source(), ": element ", *odd, " of storage ",
                    in_quotes(storage.storage.key), " is ", std::to_integer<int>(bytes[*odd]),
                    ", a bool is 0 or 1", kCopyAgain);
  }

  const ZipArchive& archive_;
  const std::string& prefix_;
  const Pickle& pickle_;
  std::map<std::string_view, std::size_t> places_of_storages_;
  std::vector<StorageToRead> storages_;
  std::vector<PytorchView> views_;   // all different
  std::vector<std::size_t> places_;  // of each tensor that was added, in views_
  std::vector<Tensor> results_;      // of views_
  std::uint64_t bytes_ = 0;          // of views_
};

}  // namespace

std::vector<NamedTensor> read_pytorch_tensors(const ZipArchive& archive, const std::string& prefix,
                                              const Pickle& pickle,
                                              std::span<const NamedPickle> named) {
  TensorReader reader(archive, prefix, pickle);
  for (const NamedPickle& entry : named) reader.add(entry);
  std::vector<Tensor> tensors = reader.read();
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < named.size(); ++i) {
    result.push_back({std::string(named[i].name), std::move(tensors[i])});
  }
  return result;
}

}  // namespace mezzo::io
