// Zip archives with stored entries: what PyTorch keeps tensors in. Compressed entries may be there,
// but cannot be read.
//
// The format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::io {

// What an archive is read from.
struct ZipSource {
  std::string_view op;  // in error messages
  std::string name;     // in error messages: a path
  std::uint64_t size = 0;
  // Fills `out` with the bytes from `position` on, all of which lie within the size.
  std::function<void(std::uint64_t position, std::span<std::byte> out)> read_at;
};

// An entry as the archive's directory describes it.
struct ZipEntry {
  std::string name;
  std::uint64_t size = 0;    // in bytes
  std::uint64_t packed = 0;  // its size in the archive: the same unless it is compressed
  std::uint64_t place = 0;   // of its header in the archive
  std::uint32_t crc = 0;     // CRC-32; 0 if the writer did not compute it
  std::uint16_t flags = 0;
  std::uint16_t method = 0;  // of compression; 0: none
};

class ZipArchive {
 public:
  // Reads the directory, with its zip64 fields where they are. It takes at most as much memory as
  // a few times its size in the file. Throws FileError if there is none, if it is damaged, or if
  // two entries have the same name.
  explicit ZipArchive(ZipSource source);

  const ZipSource& source() const { return source_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }  // sorted by name
  // The entry of that name, or null.
  const ZipEntry* find(std::string_view name) const;

  // Throws FileError if read() could not read the entry: it is compressed, encrypted, or does not
  // lie within the archive. A reader that allocates memory for an entry asks this first.
  void check(const ZipEntry& entry) const;
  // Reads a whole entry; `out` must have its size. Throws FileError as check() does, or if the
  // checksum differs.
  void read(const ZipEntry& entry, std::span<std::byte> out) const;

 private:
  std::uint64_t data_place(const ZipEntry& entry) const;

  ZipSource source_;
  std::vector<ZipEntry> entries_;
};

}  // namespace mezzo::io
