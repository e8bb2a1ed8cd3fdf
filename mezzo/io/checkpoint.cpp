#include "mezzo/io/checkpoint.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/io/checkpoint_folder.h"
#include "mezzo/io/checkpoint_manifest.h"
#include "mezzo/io/crc32c.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/io/source.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;

void check_crc(const std::string& path, const ManifestFile& file) {
  FileSource source(path, kCheckpointOp);
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChunk, source.size()));
  std::uint32_t crc = 0;
  while (source.left() > 0) {
    const auto piece = std::span(chunk).first(std::min<std::uint64_t>(kChunk, source.left()));
    source.read(piece);
    crc = crc32c(piece, crc);
  }
  if (crc != file.crc) {
    fail<FileError>(kCheckpointOp, path,
                    ": damaged: its checksum is not the one in the manifest. Use ",
                    "another checkpoint");
  }
}

// Sorts tensors, which a file keeps in its own order, into the order of `names`.
std::vector<NamedTensor> in_order(const std::string& path, std::vector<NamedTensor> tensors,
                                  const std::vector<std::string>& names) {
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) places[tensors[i].name] = i;
  std::vector<NamedTensor> ordered;
  for (const std::string& name : names) {
    const auto found = places.find(name);
    if (found == places.end()) {
      fail<FileError>(kCheckpointOp, path, ": it has no tensor ", in_quotes(name),
                      ", which the manifest lists. Use another checkpoint");
    }
    ordered.push_back(tensors[found->second]);
    places.erase(found);
  }
  if (!places.empty()) {
    fail<FileError>(kCheckpointOp, path, ": it has the tensor ", in_quotes(places.begin()->first),
                    ", which the manifest does not list. Use another checkpoint");
  }
  return ordered;
}

// Reads the first sound checkpoint in this order. Faults of those before it go to `damaged`.
std::optional<FoundCheckpoint> read_first(const std::vector<CheckpointInfo>& infos,
                                          std::vector<DamagedCheckpoint>& damaged) {
  for (const CheckpointInfo& info : infos) {
    try {
      return FoundCheckpoint{read_checkpoint(info.path), info.path, {}};
    } catch (const FileError& error) {
      damaged.push_back({info.path, error.what()});
    }
  }
  return std::nullopt;
}

[[noreturn]] void fail_all(const std::string& folder,
                           const std::vector<DamagedCheckpoint>& damaged) {
  std::string reasons;
  for (const auto& [path, problem] : damaged) {
    reasons += concat(reasons.empty() ? " " : "; ", problem);
  }
  fail<FileError>(
      kCheckpointOp, folder, ": none of its ", damaged.size(),
      " checkpoints is intact. Restore one of them, or start again in another folder:", reasons);
}

// Reports what happened, in the log and in the result.
FoundCheckpoint settle(const std::string& folder, std::optional<FoundCheckpoint> found,
                       std::vector<DamagedCheckpoint> damaged) {
  if (!found) fail_all(folder, damaged);
  for (const auto& [path, problem] : damaged) {
    logging::write(logging::Topic::kWarning, "a checkpoint is skipped: ", problem);
  }
  if (!damaged.empty()) {
    logging::write(logging::Topic::kWarning, "the newest intact checkpoint is ", found->path,
                   ", step ", found->checkpoint.step);
  }
  found->damaged = std::move(damaged);
  return std::move(*found);
}

// False if a concurrent run has written or removed checkpoints since they were listed.
bool is_as_listed(const std::string& folder, const std::vector<CheckpointInfo>& listed) {
  std::vector<CheckpointEntry> now = scan_checkpoints(folder);
  std::erase_if(now, [](const CheckpointEntry& entry) { return entry.is_temporary; });
  return std::ranges::equal(now, listed, {}, &CheckpointEntry::path, &CheckpointInfo::path);
}

[[noreturn]] void fail_without_any(const std::string& folder, KeepBest best) {
  if (best == KeepBest::kNone) {
    fail<FileError>(kCheckpointOp, folder, ": there is no checkpoint in it. Check the path");
  }
  fail<FileError>(kCheckpointOp, folder,
                  ": it has no intact checkpoint with a score. Check the path, or ",
                  "read the latest one");
}

// The best checkpoint, or the newest if no score is the best. A checkpoint that differs from its
// listing may just have been replaced by a newer one; the folder is then listed again.
FoundCheckpoint read_first_of(const std::string& folder, KeepBest best) {
  for (;;) {
    const std::vector<CheckpointInfo> all = list_checkpoints(folder);
    std::vector<DamagedCheckpoint> damaged;
    // The scores of these are unknown; one of them may have been the best.
    for (const CheckpointInfo& info : all) {
      if (best != KeepBest::kNone && !info.problem.empty()) {
        damaged.push_back({info.path, info.problem});
      }
    }
    const std::vector<CheckpointInfo> infos = best == KeepBest::kNone ? all : best_first(all, best);
    std::optional<FoundCheckpoint> found = read_first(infos, damaged);
    if ((!found || !damaged.empty()) && !is_as_listed(folder, all)) continue;
    if (infos.empty()) fail_without_any(folder, best);
    return settle(folder, std::move(found), std::move(damaged));
  }
}

template <class Map>
const auto& find_or_fail(const Map& map, const std::string& name, std::string_view what) {
  const auto found = map.find(name);
  if (found == map.end()) {
    fail<FileError>(kCheckpointOp, "the checkpoint has no ", what, " ", in_quotes(name),
                    ". Use one that this program wrote");
  }
  return found->second;
}

}  // namespace

const std::vector<NamedTensor>& Checkpoint::tensors(std::string_view group) const {
  const auto found = std::ranges::find(groups, group, &CheckpointGroup::name);
  if (found == groups.end()) {
    fail<FileError>(kCheckpointOp, "the checkpoint has no group of tensors ", in_quotes(group),
                    ". Use one that this program wrote");
  }
  return found->tensors;
}

RandomPosition Checkpoint::random_position(const std::string& name) const {
  return find_or_fail(random, name, "random stream");
}

template <class T>
const T& Checkpoint::value(const std::string& section, const std::string& name) const {
  const CheckpointValue& found =
      find_or_fail(find_or_fail(values, section, "section"), name, concat(section, " value"));
  if (!std::holds_alternative<T>(found)) {
    fail<FileError>(kCheckpointOp, "the checkpoint's ", section, " value ", in_quotes(name),
                    " is of another type. Use one that this program wrote");
  }
  return std::get<T>(found);
}

template const bool& Checkpoint::value<bool>(const std::string&, const std::string&) const;
template const std::int64_t& Checkpoint::value<std::int64_t>(const std::string&,
                                                             const std::string&) const;
template const double& Checkpoint::value<double>(const std::string&, const std::string&) const;
template const std::string& Checkpoint::value<std::string>(const std::string&,
                                                           const std::string&) const;

Checkpoint read_checkpoint(const std::string& path) {
  Manifest manifest = read_manifest(path);
  Checkpoint checkpoint = std::move(manifest.checkpoint);
  for (const ManifestFile& file : manifest.files) {
    const std::string file_path = concat(path, "/", file.file_name());
    check_crc(file_path, file);
    SafetensorsFile read = read_safetensors(file_path);
    checkpoint.groups.push_back(
        {file.group, in_order(file_path, std::move(read.tensors), file.names)});
  }
  return checkpoint;
}

std::vector<CheckpointInfo> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointInfo> infos;
  for (const CheckpointEntry& entry : scan_checkpoints(folder)) {
    if (entry.is_temporary) continue;
    CheckpointInfo info{.path = entry.path, .number = entry.number, .step = entry.step};
    try {
      info.score = read_manifest(entry.path).checkpoint.score;
    } catch (const FileError& error) {
      info.problem = error.what();
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

FoundCheckpoint read_latest_checkpoint(const std::string& folder) {
  return read_first_of(folder, KeepBest::kNone);
}

FoundCheckpoint read_best_checkpoint(const std::string& folder, KeepBest best) {
  check_arg(best != KeepBest::kNone, kCheckpointOp,
            "the order of scores is not set. Ask for the highest or lowest score");
  return read_first_of(folder, best);
}

}  // namespace mezzo::io
