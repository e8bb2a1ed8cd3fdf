#include "mezzo/io/pytorch_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/pickle.h"
#include "mezzo/io/pytorch_tensors.h"
#include "mezzo/io/source.h"
#include "mezzo/io/utf8.h"
#include "mezzo/io/zip.h"

namespace mezzo::io {
namespace {

constexpr std::string_view kZipStart = "PK\x03\x04";
// Before version 1.6, files began with this number, pickled: PROTO, the protocol, LONG1 of 10
// bytes.
constexpr std::string_view kLegacyNumber = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::size_t kLegacyNumberAt = 2;
constexpr std::size_t kStartSize = kLegacyNumberAt + kLegacyNumber.size();
// That of a network with 100,000 tensors takes 20 MB.
constexpr std::uint64_t kMaxPickle = 100'000'000;
constexpr int kNewestVersion = 10;
constexpr std::uint64_t kMaxNote = 64;  // of the entries `byteorder` and `version`, in bytes
constexpr std::string_view kSaveAgain = ". Load it with torch.load() and save it with torch.save()";

bool is_legacy(std::string_view start) {
  return start.size() == kStartSize && start.substr(kLegacyNumberAt) == kLegacyNumber;
}

// The first bytes of a file, at most kStartSize of them.
std::string start_of(const ZipSource& source) {
  std::string start(std::min<std::uint64_t>(source.size, kStartSize), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(start)));
  return start;
}

void check_start(const ZipSource& source) {
  const std::string start = start_of(source);
  if (start.starts_with(kZipStart)) return;
  if (is_legacy(start)) {
    fail<FileError>(kPytorchOp, source.name, ": it is in the format of PyTorch before 1.6",
                    kSaveAgain);
  }
  fail<FileError>(kPytorchOp, source.name, ": not a file of torch.save(): it begins with ",
                  in_quotes(escape_invalid_utf8(start)),
                  ", expected 'PK'. Check that this is the right file");
}

// An archive of torch.save(): all entries lie in one folder, named after the file.
class PytorchArchive {
 public:
  explicit PytorchArchive(ZipSource source) : zip_(std::move(source)), prefix_(find_prefix()) {
    if (zip_.find(prefix_ + "/constants.pkl") != nullptr || has_folder("/code/")) {
      fail<FileError>(kPytorchOp, name(),
                      ": it is a TorchScript archive, a program and not only tensors. Load it with "
                      "torch.jit.load() and save its state_dict() with torch.save()");
    }
    check_byte_order();
    check_version();
  }

  std::vector<NamedTensor> read() const {
    const ZipEntry& entry = *zip_.find(prefix_ + kPickleName);
    if (entry.size > kMaxPickle) {
      fail<FileError>(kPytorchOp, name(), ": its data.pkl has ", entry.size, " bytes, at most ",
                      kMaxPickle, " are allowed. Save it in several files");
    }
    const std::string bytes = text_of(entry);
    const Pickle pickle = read_pickle(name(), std::as_bytes(std::span(bytes)));
    return read_pytorch_tensors(zip_, prefix_, pickle, named_tensors(pickle));
  }

 private:
  static constexpr const char* kPickleName = "/data.pkl";

  const std::string& name() const { return zip_.source().name; }

  std::string find_prefix() const {
    for (const ZipEntry& entry : zip_.entries()) {
      const std::size_t slash = entry.name.find('/');
      if (slash != std::string::npos && entry.name.substr(slash) == kPickleName) {
        return entry.name.substr(0, slash);
      }
    }
    fail<FileError>(kPytorchOp, name(), ": it is a zip archive of ", zip_.entries().size(),
                    " entries without a data.pkl. Give a file that torch.save() wrote");
  }

  bool has_folder(std::string_view folder) const {
    const std::string begin = concat(prefix_, folder);
    return std::ranges::any_of(
        zip_.entries(), [&](const ZipEntry& entry) { return entry.name.starts_with(begin); });
  }

  std::string text_of(const ZipEntry& entry) const {
    zip_.check(entry);
    std::string text(entry.size, '\0');
    zip_.read(entry, std::as_writable_bytes(std::span(text)));
    return text;
  }

  // The text of a small entry, without the end of its line. Empty if there is none.
  std::optional<std::string> note(const char* entry_name) const {
    const ZipEntry* const entry = zip_.find(prefix_ + entry_name);
    if (entry == nullptr || entry->size > kMaxNote) return std::nullopt;
    std::string text = text_of(*entry);
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }

  // Files of PyTorch before 2.1 do not say it. They are of little-endian machines, as good as all.
  void check_byte_order() const {
    const std::optional<std::string> order = note("/byteorder");
    if (!order || *order == "little") return;
    fail<FileError>(kPytorchOp, name(), ": its byte order is ",
                    in_quotes(escape_invalid_utf8(*order)),
                    ", expected 'little'. Save it again on a machine with that order");
  }

  void check_version() const {
    const std::optional<std::string> text = note("/version");
    if (!text) return;
    int version = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), version);
    const bool is_number = error == std::errc() && end == text->data() + text->size();
    if (is_number && version >= 1 && version <= kNewestVersion) return;
    fail<FileError>(kPytorchOp, name(), ": its version is ", in_quotes(escape_invalid_utf8(*text)),
                    ", mezzo reads 1 to ", kNewestVersion,
                    ". Save the tensors as safetensors, or copy the file again if it is damaged");
  }

  static bool has_only_tensors(const Pickle& pickle, PickleValue dict) {
    const std::span<const PickleValue> pairs = pickle.items(dict);
    for (std::size_t i = 1; i < pairs.size(); i += 2) {
      if (!pairs[i].is(PickleKind::kTensor)) return false;
    }
    return !pairs.empty();
  }

  // The dict of tensors in a pickled object: a dict under `state_dict` or `model`, or the object.
  // Of two such dicts, the one that has only tensors is meant; the other may be a configuration.
  PickleValue find_state(const Pickle& pickle) const {
    if (!pickle.result.is(PickleKind::kDict)) {
      fail<FileError>(kPytorchOp, name(), ": it holds ", describe(pickle.result.kind),
                      ", expected a dict of names and tensors", kSaveStateDict);
    }
    std::vector<PickleValue> dicts;
    for (const std::string_view key : {"state_dict", "model"}) {
      const std::optional<PickleValue> value = pickle.find(pickle.result, key);
      if (value && value->is(PickleKind::kDict)) dicts.push_back(*value);
    }
    if (dicts.size() == 2) {
      const bool is_first = has_only_tensors(pickle, dicts[0]);
      if (is_first && has_only_tensors(pickle, dicts[1])) {
        fail<FileError>(kPytorchOp, name(),
                        ": it has tensors under both 'state_dict' and 'model'. Save one of them");
      }
      return dicts[is_first ? 0 : 1];
    }
    return dicts.empty() ? pickle.result : dicts[0];
  }

  std::vector<NamedPickle> named_tensors(const Pickle& pickle) const {
    const std::span<const PickleValue> pairs = pickle.items(find_state(pickle));
    std::vector<NamedPickle> named;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      if (!pairs[i].is(PickleKind::kText)) {
        fail<FileError>(kPytorchOp, name(), ": key ", i / 2, " of its dict is ",
                        describe(pairs[i].kind), ", expected a name", kSaveStateDict);
      }
      const std::string_view key = pickle.text(pairs[i]);
      if (!pairs[i + 1].is(PickleKind::kTensor)) {
        fail<FileError>(kPytorchOp, name(), ": ", in_quotes(key), " is ",
                        describe(pairs[i + 1].kind), ", expected a tensor", kSaveStateDict);
      }
      if (!names.insert(key).second) {
        fail<FileError>(kPytorchOp, name(), ": tensor ", in_quotes(key), " occurs twice",
                        kCopyAgain);
      }
      named.push_back({key, pairs[i + 1]});
    }
    return named;
  }

  ZipArchive zip_;
  std::string prefix_;
};

template <class Source>
std::vector<NamedTensor> read_pytorch_from(Source& file) {
  ZipSource source{.op = kPytorchOp,
                   .name = file.name(),
                   .size = file.size(),
                   .read_at = [&](std::uint64_t position, std::span<std::byte> out) {
                     file.read_at(position, out);
                   }};
  check_start(source);
  return PytorchArchive(std::move(source)).read();
}

}  // namespace

std::vector<NamedTensor> read_pytorch(const std::string& path) {
  FileSource file(path, kPytorchOp);
  return read_pytorch_from(file);
}

std::vector<NamedTensor> parse_pytorch(std::span<const std::byte> bytes, std::string_view source) {
  MemorySource memory(bytes, source);
  return read_pytorch_from(memory);
}

bool is_pytorch_file(const std::string& path) {
  try {
    FileSource file(path, kPytorchOp);
    std::string start(std::min<std::uint64_t>(file.size(), kStartSize), '\0');
    file.read(std::as_writable_bytes(std::span(start)));
    return start.starts_with(kZipStart) || is_legacy(start);
  } catch (const FileError&) {
    return false;
  }
}

}  // namespace mezzo::io
