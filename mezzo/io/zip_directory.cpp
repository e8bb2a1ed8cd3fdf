#include "mezzo/io/zip_directory.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "mezzo/core/error.h"
#include "mezzo/io/little_endian.h"

namespace mezzo::io {
namespace {

constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kLocatorMark = 0x07064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kEntrySize = 46;  // without name, extra fields and comment
constexpr std::size_t kMostComment = 0xffff;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint32_t kIn64 = std::numeric_limits<std::uint32_t>::max();

struct DirectoryPlace {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

std::vector<std::byte> bytes_at(const ZipSource& source, std::uint64_t position,
                                std::uint64_t size) {
  std::vector<std::byte> bytes(size);
  source.read_at(position, bytes);
  return bytes;
}

// The position of the record at the end of the archive. Only a comment may follow it, whose length
// it has; so nothing within the comment is taken for the record.
std::uint64_t find_end(const ZipSource& source) {
  const std::uint64_t length = std::min<std::uint64_t>(source.size, kEndSize + kMostComment);
  const std::uint64_t begin = source.size - length;
  const std::vector<std::byte> tail = bytes_at(source, begin, length);
  for (std::size_t comment = 0; comment + kEndSize <= length; ++comment) {
    const std::size_t at = length - kEndSize - comment;
    if (number_at<std::uint32_t>(tail, at) == kEndMark &&
        number_at<std::uint16_t>(tail, at + 20) == comment) {
      return begin + at;
    }
  }
  fail<FileError>(source.op, source.name, ": short file: it has ", source.size,
                  " bytes and no zip directory at its end", kCopyAgain);
}

// The directory's place from the zip64 record, if the record at `end` has one before it.
std::optional<DirectoryPlace> find_place64(const ZipSource& source, std::uint64_t end) {
  if (end < kLocatorSize) return std::nullopt;
  const std::vector<std::byte> locator = bytes_at(source, end - kLocatorSize, kLocatorSize);
  if (number_at<std::uint32_t>(locator, 0) != kLocatorMark) return std::nullopt;
  const auto at = number_at<std::uint64_t>(locator, 8);
  if (source.size < kEnd64Size || at > source.size - kEnd64Size) {
    fail<FileError>(source.op, source.name, ": its zip64 record should be at byte ", at,
                    ", the file has ", source.size, kCopyAgain);
  }
  const std::vector<std::byte> record = bytes_at(source, at, kEnd64Size);
  if (number_at<std::uint32_t>(record, 0) != kEnd64Mark) {
    fail<FileError>(source.op, source.name, ": there is no zip64 record at byte ", at, kCopyAgain);
  }
  return DirectoryPlace{.begin = number_at<std::uint64_t>(record, 48),
                        .size = number_at<std::uint64_t>(record, 40),
                        .count = number_at<std::uint64_t>(record, 32)};
}

DirectoryPlace find_place(const ZipSource& source) {
  const std::uint64_t end = find_end(source);
  if (const std::optional<DirectoryPlace> place = find_place64(source, end)) return *place;
  const std::vector<std::byte> record = bytes_at(source, end, kEndSize);
  return {.begin = number_at<std::uint32_t>(record, 16),
          .size = number_at<std::uint32_t>(record, 12),
          .count = number_at<std::uint16_t>(record, 10)};
}

// Replaces the numbers that 32 bits could not hold by those of the zip64 field, which has just
// them, in this order. False if it has too few.
bool take_zip64(std::span<const std::byte> extra, ZipEntry& entry) {
  std::span<const std::byte> field;
  while (extra.size() >= 4) {
    const auto kind = number_at<std::uint16_t>(extra, 0);
    const auto size = std::min<std::size_t>(number_at<std::uint16_t>(extra, 2), extra.size() - 4);
    if (kind == kZip64Field) field = extra.subspan(4, size);
    extra = extra.subspan(4 + size);
  }
  for (std::uint64_t* const number : {&entry.size, &entry.packed, &entry.place}) {
    if (*number != kIn64) continue;
    if (field.size() < sizeof(std::uint64_t)) return false;
    *number = number_at<std::uint64_t>(field, 0);
    field = field.subspan(sizeof(std::uint64_t));
  }
  return true;
}

// Removes the first entry from `rest`. Empty if it is damaged.
std::optional<ZipEntry> take_entry(std::span<const std::byte>& rest) {
  if (rest.size() < kEntrySize || number_at<std::uint32_t>(rest, 0) != kEntryMark) return {};
  const std::size_t name_size = number_at<std::uint16_t>(rest, 28);
  const std::size_t extra_size = number_at<std::uint16_t>(rest, 30);
  const std::size_t size = kEntrySize + name_size + extra_size + number_at<std::uint16_t>(rest, 32);
  if (rest.size() < size) return {};
  ZipEntry entry{.name = std::string(name_size, '\0'),
                 .size = number_at<std::uint32_t>(rest, 24),
                 .packed = number_at<std::uint32_t>(rest, 20),
                 .place = number_at<std::uint32_t>(rest, 42),
                 .crc = number_at<std::uint32_t>(rest, 16),
                 .flags = number_at<std::uint16_t>(rest, 8),
                 .method = number_at<std::uint16_t>(rest, 10)};
  std::ranges::copy(rest.subspan(kEntrySize, name_size),
                    std::as_writable_bytes(std::span(entry.name)).begin());
  if (!take_zip64(rest.subspan(kEntrySize + name_size, extra_size), entry)) return {};
  rest = rest.subspan(size);
  return entry;
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const ZipSource& source) {
  const DirectoryPlace place = find_place(source);
  if (place.begin > source.size || place.size > source.size - place.begin ||
      place.count > place.size / kEntrySize) {
    fail<FileError>(source.op, source.name, ": its zip directory claims ", place.count,
                    " entries in ", place.size, " bytes from byte ", place.begin,
                    " on, the file has ", source.size, kCopyAgain);
  }
  const std::vector<std::byte> bytes = bytes_at(source, place.begin, place.size);
  std::span<const std::byte> rest = bytes;
  std::vector<ZipEntry> entries;
  while (entries.size() < place.count) {
    std::optional<ZipEntry> entry = take_entry(rest);
    if (!entry) {
      fail<FileError>(source.op, source.name, ": entry ", entries.size(), " of ", place.count,
                      " in its zip directory is damaged", kCopyAgain);
    }
    entries.push_back(*std::move(entry));
  }
  return entries;
}

}  // namespace mezzo::io
