// The wire format of protocol buffers, as much as a few small messages need:
// https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io {

// Appends the bytes of a number, little-endian as in protocol buffers and event files.
template <class T>
void append_raw(std::string& bytes, const T& value) {
  static_assert(std::endian::native == std::endian::little);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A message under construction. Fields are written in the order of the calls, zeros included.
class ProtoMessage {
 public:
  // int64, uint64, bool and enum fields; negative numbers take ten bytes.
  ProtoMessage& integer(std::uint32_t field, std::int64_t value);
  ProtoMessage& number(std::uint32_t field, double value);
  ProtoMessage& number(std::uint32_t field, float value);
  // A string, which must be UTF-8, or bytes.
  ProtoMessage& text(std::uint32_t field, std::string_view bytes);
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& inner);
  // Repeated doubles, packed.
  ProtoMessage& numbers(std::uint32_t field, std::span<const double> values);

  const std::string& bytes() const { return bytes_; }

 private:
  enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

  void tag(std::uint32_t field, Wire wire);
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace mezzo::io
