#include "mezzo/io/protobuf.h"

namespace mezzo::io {

ProtoMessage& ProtoMessage::integer(std::uint32_t field, std::int64_t value) {
  tag(field, Wire::kVarint);
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::number(std::uint32_t field, double value) {
  tag(field, Wire::kFixed64);
  append_raw(bytes_, value);
  return *this;
}

ProtoMessage& ProtoMessage::number(std::uint32_t field, float value) {
  tag(field, Wire::kFixed32);
  append_raw(bytes_, value);
  return *this;
}

ProtoMessage& ProtoMessage::text(std::uint32_t field, std::string_view bytes) {
  tag(field, Wire::kLength);
  varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

ProtoMessage& ProtoMessage::message(std::uint32_t field, const ProtoMessage& inner) {
  return text(field, inner.bytes());
}

ProtoMessage& ProtoMessage::numbers(std::uint32_t field, std::span<const double> values) {
  tag(field, Wire::kLength);
  varint(values.size_bytes());
  for (const double value : values) append_raw(bytes_, value);
  return *this;
}

void ProtoMessage::tag(std::uint32_t field, Wire wire) {
  varint(std::uint64_t{field} << 3 | static_cast<std::uint64_t>(wire));
}

// Seven bits per byte, lowest first; the top bit says that more bytes follow.
void ProtoMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7fU) | 0x80U);
  bytes_ += static_cast<char>(value);
}

}  // namespace mezzo::io
