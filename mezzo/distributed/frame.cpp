#include "mezzo/distributed/frame.h"

#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::distributed {
namespace {

constexpr std::size_t kNumberBytes = 4;
constexpr std::size_t kHeaderBytes = kNumberBytes + 1;

std::uint32_t number_in(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = kNumberBytes; i-- > 0;) {
    value = value << 8U | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

void append_number(std::string& bytes, std::uint32_t value) {
  for (std::size_t i = 0; i < kNumberBytes; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i) & 0xFFU));
  }
}

[[noreturn]] void refuse_frame(std::string_view what) {
  fail<Error>("distributed", "what a process has sent ", what,
              ". Start the same mezzo in every process");
}

}  // namespace

std::string encoded(FrameKind kind, std::string_view payload) {
  check_arg(payload.size() <= kLongestPayload, "distributed", "a message has ", payload.size(),
            " bytes, more than the ", kLongestPayload, " that processes accept");
  std::string bytes;
  bytes.reserve(kHeaderBytes + payload.size());
  append_number(bytes, static_cast<std::uint32_t>(payload.size()));
  bytes += static_cast<char>(kind);
  bytes += payload;
  return bytes;
}

void FrameReader::add(std::string_view bytes) { bytes_ += bytes; }

std::optional<Frame> FrameReader::next() {
  if (bytes_.size() < kHeaderBytes) return std::nullopt;
  const std::size_t length = number_in(bytes_);
  const auto kind = static_cast<unsigned char>(bytes_[kNumberBytes]);
  const bool is_known = kind >= static_cast<unsigned char>(FrameKind::kGreeting) &&
                        kind <= static_cast<unsigned char>(FrameKind::kEnd);
  if (!is_known) refuse_frame("is no message of mezzo's");
  if (length > kLongestPayload) refuse_frame("is too long");
  if (bytes_.size() < kHeaderBytes + length) return std::nullopt;
  Frame frame = {.kind = static_cast<FrameKind>(kind),
                 .payload = bytes_.substr(kHeaderBytes, length)};
  bytes_.erase(0, kHeaderBytes + length);
  return frame;
}

PayloadWriter& PayloadWriter::number(std::uint32_t value) {
  append_number(bytes_, value);
  return *this;
}

PayloadWriter& PayloadWriter::text(std::string_view value) {
  append_number(bytes_, static_cast<std::uint32_t>(value.size()));
  bytes_ += value;
  return *this;
}

std::string_view PayloadReader::take(std::size_t count) {
  if (count > bytes_.size()) refuse_frame("is too short");
  const std::string_view taken = bytes_.substr(0, count);
  bytes_.remove_prefix(count);
  return taken;
}

std::uint32_t PayloadReader::number() { return number_in(take(kNumberBytes)); }

std::string PayloadReader::text() { return std::string(take(number())); }

}  // namespace mezzo::distributed
