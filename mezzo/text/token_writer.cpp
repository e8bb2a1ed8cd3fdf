#include "mezzo/text/token_writer.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "mezzo/core/error.h"

namespace mezzo::text {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kHeader = 256;  // i32 before the tokens

void write_header(io::AtomicFile& file, bool is_u16, std::int64_t count) {
  std::array<std::int32_t, kHeader> header{};
  header[0] = is_u16 ? 20240520 : 20240801;
  header[1] = is_u16 ? 1 : 7;
  header[2] = static_cast<std::int32_t>(count);
  file.overwrite(0, std::as_bytes(std::span(header)));
}

template <class Number>
void put_as(std::span<const std::int32_t> ids, std::vector<std::byte>& bytes) {
  bytes.resize(ids.size() * sizeof(Number));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto number = static_cast<Number>(ids[i]);
    std::memcpy(&bytes[i * sizeof(Number)], &number, sizeof(Number));
  }
}

}  // namespace

TokenWriter::TokenWriter(const std::string& path, std::int64_t vocabulary, std::string_view op)
    : op_(op), file_(path, op), is_u16_(fits_in_u16(vocabulary)) {
  // How many tokens follow is known at the end.
  file_.write(std::vector<std::byte>(kHeader * sizeof(std::int32_t)));
}

void TokenWriter::add(std::span<const std::int32_t> ids) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  check_arg(std::ssize(ids) <= kMost - count_, op_, file_.path(), ": there are more than ", kMost,
            " tokens, the most that the file's header can name. Divide the text");
  count_ += std::ssize(ids);
  if (is_u16_) {
    put_as<std::uint16_t>(ids, bytes_);
  } else {
    put_as<std::uint32_t>(ids, bytes_);
  }
  file_.write(bytes_);
}

void TokenWriter::commit() {
  write_header(file_, is_u16_, count_);
  file_.commit();
}

}  // namespace mezzo::text
