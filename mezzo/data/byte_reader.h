// Reads the bytes of a file, unpacked if it is compressed with gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/io/source.h"

struct z_stream_s;  // zlib's; programs that link mezzo need not have its header

namespace mezzo::data {

// Reads a file sequentially. All failures are FileErrors `[op] PATH: ...`; `op` must outlive the
// reader.
class ByteReader {
 public:
  // Throws FileError if the file cannot be opened or is not a regular file.
  ByteReader(const std::string& path, std::string_view op);
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;
  ~ByteReader();

  const std::string& path() const { return file_.name(); }
  // The size of the file on the disk.
  std::uint64_t file_bytes() const { return file_.size(); }
  // True if the file is not compressed.
  bool is_plain() const { return is_plain_; }

  // Reads up to `count` bytes; fewer only at the end of the file. Throws FileError on damaged data,
  // and if compressed data is followed by anything but more compressed data or padding zeros.
  std::size_t read(std::uint8_t* out, std::size_t count);
  // True if compressed data ended too early. Known once read() has given fewer bytes than
  // requested.
  bool ends_early() const { return is_in_member_; }

 private:
  std::size_t take(std::uint8_t* out, std::size_t count);
  std::size_t unpack(std::uint8_t* out, std::size_t count);
  void refill();
  bool is_at_member();
  void end_member();
  void check_padding();

  std::string_view op_;
  io::FileSource file_;
  std::vector<std::uint8_t> buffer_;  // bytes of the file as stored
  // zlib's state, which also says which bytes of the buffer are not used yet.
  std::unique_ptr<z_stream_s> stream_;
  bool is_plain_ = true;
  bool is_in_member_ = false;  // within one of the compressed members of a gzip file
};

}  // namespace mezzo::data
