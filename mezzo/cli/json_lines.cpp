#include "mezzo/cli/json_lines.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/file_calls.h"

namespace mezzo::cli {
namespace {

// JSON is UTF-8, while paths and names may be any bytes.
std::string line_of(const Json& event) {
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Every line begins with this, even the torn first line of a run that was killed.
constexpr std::string_view kLineBegin = R"({"event":")";

// A mistyped name must not destroy a file: logs are truncated, or continued after their last line.
void check_is_log(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kLineBegin.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  if (!kLineBegin.starts_with(begin)) {
    fail<FileError>("json", path, ": exists and is not a log of mezzo. Choose another file");
  }
}

// Truncates a regular file; other files hold nothing to remove.
void drop_lines(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    std::filesystem::resize_file(path, 0, ignored);
  }
}

// Removes the unfinished line of a run that was killed while it wrote.
void drop_torn_line(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::int64_t>(file.tellg());
  std::int64_t whole = size;
  for (; whole > 0; --whole) {
    file.seekg(whole - 1);
    if (file.get() == '\n') break;
  }
  if (whole < size) {
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(whole), ignored);
  }
}

}  // namespace

JsonLines::JsonLines(const std::string& path, bool append) : path_(path), append_(append) {
  if (path.empty()) return;
  check_is_log(path);
  std::error_code ignored;
  const auto found = std::filesystem::symlink_status(path, ignored);
  is_new_ = found.type() == std::filesystem::file_type::not_found;
  errno = 0;
  file_.open(path, std::ios::app);
  if (!file_) io::fail_file("json", path, "cannot be written", errno);
}

JsonLines::~JsonLines() {
  std::error_code ignored;
  if (is_new_ && !has_lines_) std::filesystem::remove(path_, ignored);
}

void JsonLines::begin(const Json& event) { waiting_ += line_of(event) + "\n"; }

void JsonLines::write(const Json& event) {
  if (path_.empty()) return;
  if (!std::exchange(has_lines_, true)) append_ ? drop_torn_line(path_) : drop_lines(path_);
  put(std::exchange(waiting_, {}) + line_of(event) + "\n");
}

void JsonLines::put(const std::string& lines) {
  errno = 0;
  file_ << lines << std::flush;
  if (file_) return;
  fail<DiskError>("json", path_,
                  errno == EPIPE ? ": its reader has closed it. Write to a file instead"
                                 : ": writing failed. Is the disk full?");
}

}  // namespace mezzo::cli
