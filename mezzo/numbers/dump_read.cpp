// Reads the folder of a dumped step.
#include <map>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/mapped_file.h"
#include "mezzo/io/row_major.h"
#include "mezzo/io/safetensors_header.h"
#include "mezzo/io/source.h"
#include "mezzo/io/utf8.h"
#include "mezzo/numbers/dump.h"

namespace mezzo::numbers {
namespace {

// Keeps a file mapped as long as a tensor reads from it.
class MappedTensors final : public RefCounted {
 public:
  explicit MappedTensors(const std::string& path) : file_(path, io::kSafetensorsOp) {}
  const io::MappedFile& file() const { return file_; }

 private:
  io::MappedFile file_;
};

// The tensors of one file, by name.
class DumpFile {
 public:
  explicit DumpFile(const std::string& path) : mapped_(make_ref<MappedTensors>(path)) {
    const std::span<const std::byte> bytes = mapped_->file().bytes();
    const std::uint64_t header = io::check_header_length(
        path, bytes.first(std::min(bytes.size(), io::kSafetensorsPrefix)), bytes.size());
    const auto text = bytes.subspan(io::kSafetensorsPrefix, header);
    const auto data = bytes.subspan(io::kSafetensorsPrefix + header);
    const io::SafetensorsHeader parsed = io::parse_header(
        path, {reinterpret_cast<const char*>(text.data()), text.size()}, data.size());
    for (const io::SafetensorsEntry& entry : parsed.entries) {
      tensors_[entry.name] = tensor_of(entry, data.subspan(entry.begin, entry.end - entry.begin));
    }
  }

  const Tensor* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found != tensors_.end() ? &found->second : nullptr;
  }

 private:
  Tensor tensor_of(const io::SafetensorsEntry& entry, std::span<const std::byte> bytes) {
    const bool is_aligned =
        reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(entry.dtype) == 0;
    if (entry.dtype == DType::kBool && io::find_odd_bool(bytes).has_value()) {
      fail<FileError>(kDumpOp, mapped_->file().path(), ": ", io::in_quotes(entry.name),
                      " has a BOOL that is neither 0 nor 1. Make the dump again");
    }
    // Nothing writes into a record.
    auto* const begin = const_cast<std::byte*>(bytes.data());
    const Ref<Storage> storage =
        make_ref<Storage>(begin, bytes.size(), kCpuDevice, Ref<RefCounted>(mapped_.get()));
    if (!bytes.empty() && !is_aligned) {
      fail<FileError>(kDumpOp, mapped_->file().path(), ": ", io::in_quotes(entry.name),
                      " does not begin at a multiple of its elements' size. Make the dump again");
    }
    const Strides strides = strides_for(entry.shape, Format::kContiguous);
    return Tensor(make_ref<TensorImpl>(storage, 0, entry.shape, strides, entry.dtype));
  }

  Ref<MappedTensors> mapped_;
  std::map<std::string, Tensor> tensors_;
};

// The files of a folder.
class DumpReader {
 public:
  DumpReader(std::string folder, const DumpIndex& index) : folder_(std::move(folder)) {
    for (const std::string& name : index.files) files_.emplace_back(folder_ + "/" + name);
  }

  Tensor find(const DumpedTensor& dumped) const {
    const Tensor* tensor = files_[dumped.file].find(dumped.name);
    if (tensor == nullptr || tensor->shape() != dumped.shape || tensor->dtype() != dumped.dtype) {
      fail<FileError>(kDumpOp, folder_, ": the files have no ", io::in_quotes(dumped.name), ", ",
                      dumped.dtype, dumped.shape, ", which the index lists. Make the dump again");
    }
    return *tensor;
  }

 private:
  std::string folder_;
  std::vector<DumpFile> files_;
};

std::string read_text(const std::string& path) {
  io::FileSource source(path, kDumpOp);
  std::string text(static_cast<std::size_t>(source.size()), '\0');
  source.read(std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

StepRecord read_dump(const std::string& folder) {
  const std::string path = folder + "/" + kDumpIndexName;
  DumpIndex index = parse_dump_index(path, read_text(path));
  const DumpReader reader(folder, index);
  StepRecord record{.facts = index.facts};
  for (const DumpedSource& source : index.sources) {
    record.sources.push_back({source.source, {source.name, reader.find(source.tensor)}});
  }
  for (DumpedCall& call : index.calls) {
    RecordedCall recorded{.inputs = std::move(call.inputs)};
    for (const DumpedResult& result : call.results) {
      recorded.results.push_back({result.id, reader.find(result.tensor), result.own, result.terms});
    }
    record.calls.push_back(std::move(recorded));
  }
  for (const DumpedGradient& gradient : index.gradients) {
    record.gradients.push_back({gradient.name, reader.find(gradient.tensor)});
  }
  return record;
}

}  // namespace mezzo::numbers
