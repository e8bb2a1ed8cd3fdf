#include "mezzo/io/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/io/checkpoint_manifest.h"
#include "mezzo/io/file_calls.h"
#include "mezzo/io/source.h"

namespace mezzo::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMiddle = "-step-";
constexpr std::string_view kTemporary = ".tmp";
constexpr std::string_view kTensorFile = ".safetensors";
constexpr std::size_t kWidth = 6;  // digits of the number, so that names sort as numbers do
constexpr std::int64_t kLargest = 1'000'000'000'000'000'000;

// Parses a number that takes up all of `text`.
std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || value < 0 ||
      value > kLargest) {
    return std::nullopt;
  }
  return value;
}

std::optional<CheckpointEntry> parse_name(std::string_view name) {
  CheckpointEntry entry;
  entry.is_temporary = name.ends_with(kTemporary);
  std::string_view rest =
      name.substr(0, name.size() - (entry.is_temporary ? kTemporary.size() : 0));
  const std::size_t middle = rest.rfind(kMiddle);
  if (middle == std::string_view::npos) return std::nullopt;
  const std::string_view head = rest.substr(0, middle);
  const std::size_t dash = head.rfind('-');
  const bool has_prefix = dash != std::string_view::npos;
  if (has_prefix) entry.prefix = head.substr(0, dash);
  const auto number = parse_number(has_prefix ? head.substr(dash + 1) : head);
  const auto step = parse_number(rest.substr(middle + kMiddle.size()));
  // A differently spelt name (`7-step-450`) was not written by mezzo.
  const bool is_whole = number && step && is_checkpoint_prefix(entry.prefix);
  if (!is_whole || checkpoint_name(entry.prefix, *number, *step) != rest) return std::nullopt;
  entry.number = *number;
  entry.step = *step;
  return entry;
}

bool ends_in_prefix(const fs::path& path) {
  return path.has_filename() && is_checkpoint_prefix(path.filename().string());
}

std::string folder_of(const fs::path& series) {
  return series.has_parent_path() ? series.parent_path().string() : ".";
}

// A file that is already gone counts as removed.
int without_missing(int error) { return error == ENOENT ? 0 : error; }

bool is_ours(const std::string& file_name) {
  if (file_name == kManifestName) return true;
  return file_name.ends_with(kTensorFile) && is_group_name(std::string_view(file_name).substr(
                                                 0, file_name.size() - kTensorFile.size()));
}

std::string read_text(const std::string& path) {
  FileSource source(path, kCheckpointOp);
  if (source.size() > kMaxManifest) {
    fail<FileError>(kCheckpointOp, path, ": it has ", source.size(), " bytes, at most ",
                    kMaxManifest, " are allowed. Use another checkpoint");
  }
  std::string text(source.size(), '\0');
  source.read(std::as_writable_bytes(std::span(text)));
  return text;
}

bool is_better(double a, double b, KeepBest best) {
  return best == KeepBest::kHighest ? a > b : best == KeepBest::kLowest && a < b;
}

bool has_score(const CheckpointInfo& info) {
  return info.problem.empty() && info.score && !std::isnan(*info.score);
}

}  // namespace

bool is_checkpoint_prefix(std::string_view prefix) {
  constexpr std::size_t kLongest = 64;
  const auto is_fit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return prefix.size() <= kLongest && !prefix.starts_with('.') &&
         std::ranges::all_of(prefix, is_fit);
}

std::string checkpoint_series(const std::string& folder, const std::string& prefix) {
  return prefix.empty() ? folder : (fs::path(folder) / prefix).string();
}

std::string checkpoint_name(const std::string& prefix, std::int64_t number, std::int64_t step) {
  const std::string digits = concat(number);
  const std::string zeros(kWidth - std::min(kWidth, digits.size()), '0');
  return concat(prefix, prefix.empty() ? "" : "-", zeros, digits, kMiddle, step);
}

std::vector<CheckpointEntry> scan_checkpoints(const std::string& series) {
  std::vector<CheckpointEntry> entries;
  std::error_code error;
  const fs::path path(series);
  const bool has_prefix =
      !fs::exists(path, error) && ends_in_prefix(path) && fs::is_directory(folder_of(path), error);
  const std::string prefix = has_prefix ? path.filename().string() : "";
  const std::string folder = has_prefix ? folder_of(path) : series;
  fs::directory_iterator found(folder, error);
  for (; !error && found != fs::directory_iterator(); found.increment(error)) {
    std::optional<CheckpointEntry> entry = parse_name(found->path().filename().string());
    std::error_code ignored;
    if (!entry || entry->prefix != prefix) continue;
    if (found->symlink_status(ignored).type() != fs::file_type::directory) continue;
    entry->path = found->path().string();
    entries.push_back(std::move(*entry));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail_file(kCheckpointOp, folder, "cannot be read", error.value());
  }
  std::ranges::sort(entries, [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::pair(a.number, a.step) > std::pair(b.number, b.step);
  });
  return entries;
}

FolderLock::FolderLock(const std::string& folder) {
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) fail_file(kCheckpointOp, folder, "cannot be opened", errno);
  held_ = ::flock(folder_, LOCK_EX | LOCK_NB) == 0;
  if (held_ || errno != EWOULDBLOCK) return;
  ::close(folder_);
  fail<FileError>(
      kCheckpointOp, folder,
      ": another process is writing a checkpoint into it. Give each run its own folder");
}

FolderLock::~FolderLock() { ::close(folder_); }

int remove_checkpoint(const std::string& path, const std::vector<std::string>& file_names) {
  // The manifest is removed last: until then it tells the next attempt which files to remove.
  for (const std::string& name : file_names) {
    if (const int error = without_missing(remove_file(concat(path, "/", name))); error != 0) {
      return error;
    }
  }
  if (const int error = without_missing(remove_file(concat(path, "/", kManifestName)));
      error != 0) {
    return error;
  }
  return without_missing(remove_folder(path));
}

int remove_temporary(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator found(path, error);
  for (; !error && found != fs::directory_iterator(); found.increment(error)) {
    const std::string name = found->path().filename().string();
    if (is_ours(name)) names.push_back(name);
  }
  if (error) return error.value();
  return remove_checkpoint(path, names);
}

Manifest parse_manifest_of(const std::string& path) {
  const std::string name = concat(path, "/", kManifestName);
  return parse_manifest(name, read_text(name));
}

Manifest read_manifest(const std::string& path) {
  Manifest manifest = parse_manifest_of(path);
  for (const ManifestFile& file : manifest.files) {
    const std::string file_path = concat(path, "/", file.file_name());
    const FileSource source(file_path, kCheckpointOp);
    if (source.size() != file.bytes) {
      fail<FileError>(kCheckpointOp, file_path, ": damaged: it has ", source.size(),
                      " bytes, the manifest says ", file.bytes, ". Use another checkpoint");
    }
  }
  return manifest;
}

std::vector<CheckpointInfo> best_first(std::vector<CheckpointInfo> infos, KeepBest best) {
  std::erase_if(infos, [](const CheckpointInfo& info) { return !has_score(info); });
  std::ranges::reverse(infos);
  std::ranges::stable_sort(infos, [&](const CheckpointInfo& a, const CheckpointInfo& b) {
    return is_better(*a.score, *b.score, best);
  });
  return infos;
}

}  // namespace mezzo::io
