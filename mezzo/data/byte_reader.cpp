#include "mezzo/data/byte_reader.h"

#include <algorithm>
#include <span>

#include <zlib.h>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

constexpr std::size_t kBuffer = 1 << 17;
constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib's number for the format

}  // namespace

ByteReader::ByteReader(const std::string& path, std::string_view op)
    : op_(op),
      file_(path, op),
      buffer_(kBuffer),
      stream_(std::make_unique<z_stream>()),
      is_plain_(!is_at_member()) {
  if (is_plain_) return;
  is_in_member_ = true;
  if (inflateInit2(stream_.get(), kGzipOnly) != Z_OK) {
    fail<FileError>(op_, path, ": cannot be unpacked: zlib has run out of memory. Free some");
  }
}

ByteReader::~ByteReader() {
  if (!is_plain_) inflateEnd(stream_.get());
}

std::size_t ByteReader::read(std::uint8_t* out, std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    if (stream_->avail_in == 0) refill();
    if (stream_->avail_in == 0) break;
    done += is_plain_ ? take(out + done, count - done) : unpack(out + done, count - done);
  }
  return done;
}

std::size_t ByteReader::take(std::uint8_t* out, std::size_t count) {
  const auto part = static_cast<uInt>(std::min<std::size_t>(count, stream_->avail_in));
  std::copy_n(stream_->next_in, part, out);
  stream_->next_in += part;
  stream_->avail_in -= part;
  return part;
}

std::size_t ByteReader::unpack(std::uint8_t* out, std::size_t count) {
  const auto part = static_cast<uInt>(std::min(count, kBuffer));
  stream_->next_out = out;
  stream_->avail_out = part;
  const int status = inflate(stream_.get(), Z_NO_FLUSH);
  if (status == Z_STREAM_END) {
    end_member();
  } else if (status != Z_OK) {
    fail<FileError>(op_, path(), ": cannot be read: ",
                    stream_->msg != nullptr ? stream_->msg : "the compressed data is damaged",
                    kCopyAgain);
  }
  return part - stream_->avail_out;
}

// Reads more bytes of the file and appends them to the unused ones.
void ByteReader::refill() {
  const std::size_t rest = stream_->avail_in;
  std::copy_n(stream_->next_in, rest, buffer_.data());
  const auto more =
      static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size() - rest, file_.left()));
  file_.read(std::as_writable_bytes(std::span(buffer_)).subspan(rest, more));
  stream_->next_in = buffer_.data();
  stream_->avail_in = static_cast<uInt>(rest + more);
}

bool ByteReader::is_at_member() {
  if (stream_->avail_in < 2) refill();
  return stream_->avail_in >= 2 && stream_->next_in[0] == 0x1F && stream_->next_in[1] == 0x8B;
}

void ByteReader::end_member() {
  is_in_member_ = is_at_member();
  if (is_in_member_) {
    inflateReset(stream_.get());
  } else {
    check_padding();
  }
}

void ByteReader::check_padding() {
  while (stream_->avail_in > 0) {
    const std::span rest(stream_->next_in, stream_->avail_in);
    if (std::ranges::any_of(rest, [](std::uint8_t byte) { return byte != 0; })) {
      fail<FileError>(op_, path(), ": ", rest.size() + file_.left(),
                      " bytes follow the end of the compressed data", kCopyAgain);
    }
    stream_->avail_in = 0;
    refill();
  }
}

}  // namespace mezzo::data
