#include "mezzo/io/zip.h"

#include <algorithm>
#include <utility>

#include <zlib.h>

#include "mezzo/core/error.h"
#include "mezzo/io/little_endian.h"
#include "mezzo/io/utf8.h"
#include "mezzo/io/zip_directory.h"

namespace mezzo::io {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::size_t kLocalSize = 30;  // without name and extra fields
constexpr std::uint16_t kEncrypted = 1;
// Large entries are read in pieces, so that a checksum finds its bytes in the caches.
constexpr std::size_t kPiece = std::size_t{1} << 20;

std::string entry_name(std::string_view name) { return in_quotes(escape_invalid_utf8(name)); }

}  // namespace

ZipArchive::ZipArchive(ZipSource source)
    : source_(std::move(source)), entries_(read_zip_directory(source_)) {
  std::ranges::sort(entries_, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(entries_, {}, &ZipEntry::name);
  if (twice == entries_.end()) return;
  fail<FileError>(source_.op, source_.name, ": two of its entries are called ",
                  entry_name(twice->name), ". Check the program that wrote it");
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &ZipEntry::name);
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

void ZipArchive::check(const ZipEntry& entry) const {
  if ((entry.flags & kEncrypted) != 0) {
    fail<FileError>(source_.op, source_.name, ": its entry ", entry_name(entry.name),
                    " is encrypted. Save the file again with torch.save()");
  }
  if (entry.method != 0 || entry.packed != entry.size) {
    fail<FileError>(source_.op, source_.name, ": its entry ", entry_name(entry.name),
                    " is compressed by method ", entry.method, ": ", entry.size, " bytes into ",
                    entry.packed, ". Save the file again with torch.save(), which stores entries");
  }
  static_cast<void>(data_place(entry));
}

// Two names or lengths that differ are a sign of damage: the directory and the header before the
// data say the same.
std::uint64_t ZipArchive::data_place(const ZipEntry& entry) const {
  const std::uint64_t before = kLocalSize + entry.name.size();
  if (entry.place <= source_.size && before <= source_.size - entry.place) {
    std::vector<std::byte> header(before);
    source_.read_at(entry.place, header);
    const std::uint64_t data =
        entry.place + before + number_at<std::uint16_t>(header, 28);  // extra fields
    const bool is_same = number_at<std::uint32_t>(header, 0) == kLocalMark &&
                         number_at<std::uint16_t>(header, 26) == entry.name.size() &&
                         std::ranges::equal(std::span(header).subspan(kLocalSize),
                                            std::as_bytes(std::span(entry.name)));
    if (is_same && data <= source_.size && entry.size <= source_.size - data) return data;
  }
  fail<FileError>(source_.op, source_.name, ": its entry ", entry_name(entry.name), " of ",
                  entry.size, " bytes should begin at byte ", entry.place, ", where it is not",
                  kCopyAgain);
}

void ZipArchive::read(const ZipEntry& entry, std::span<std::byte> out) const {
  check(entry);
  MEZZO_INVARIANT(out.size() == entry.size);
  std::uint64_t place = data_place(entry);
  uLong crc = 0;
  while (!out.empty()) {
    const std::span piece = out.first(std::min(out.size(), kPiece));
    source_.read_at(place, piece);
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    place += piece.size();
    out = out.subspan(piece.size());
  }
  // torch.serialization.set_crc32_options(False) writes 0 for every entry.
  if (entry.crc == 0 || crc == entry.crc) return;
  fail<FileError>(source_.op, source_.name, ": its entry ", entry_name(entry.name),
                  " has the CRC-32 ", crc, ", the directory says ", entry.crc, kCopyAgain);
}

}  // namespace mezzo::io
