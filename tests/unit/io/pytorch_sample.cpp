#include "tests/unit/io/pytorch_sample.h"

#include <zlib.h>

namespace mezzo::io::sample {
namespace {

constexpr std::uint32_t kMost = 0xffffffff;

std::uint32_t checksum_of(const Part& part, const ZipForm& form) {
  if (!form.has_checksums) return 0;
  const auto* const first = reinterpret_cast<const Bytef*>(part.data.data());
  return static_cast<std::uint32_t>(crc32_z(0, first, part.data.size()));
}

// What the header before the data and the directory have in common, up to the length of the name.
std::string common_fields(const Part& part, const ZipForm& form) {
  const auto size = form.zip64 ? kMost : static_cast<std::uint32_t>(part.data.size());
  return number_bytes(std::uint16_t{0}) + number_bytes(part.flags) + number_bytes(part.method) +
         number_bytes(std::uint32_t{0}) + number_bytes(checksum_of(part, form)) +
         number_bytes(size) + number_bytes(size) +
         number_bytes(static_cast<std::uint16_t>(part.name.size()));
}

// Padding as PyTorch has it before the data, in a field of a kind of its own.
std::string local_extra() { return "FB" + number_bytes(std::uint16_t{5}) + "ZZZZZ"; }

std::string zip64_extra(const Part& part, std::uint64_t place) {
  const std::uint64_t size = part.data.size();
  return "FB" + number_bytes(std::uint16_t{1}) + "Z" + number_bytes(std::uint16_t{1}) +
         number_bytes(std::uint16_t{24}) + number_bytes(size) + number_bytes(size) +
         number_bytes(place);
}

std::string directory_entry(const Part& part, std::uint64_t place, const ZipForm& form) {
  const std::string extra = form.zip64 ? zip64_extra(part, place) : "";
  const auto place32 = form.zip64 ? kMost : static_cast<std::uint32_t>(place);
  return "PK\x01\x02" + number_bytes(std::uint16_t{0}) + common_fields(part, form) +
         number_bytes(static_cast<std::uint16_t>(extra.size())) + number_bytes(std::uint16_t{0}) +
         number_bytes(std::uint16_t{0}) + number_bytes(std::uint16_t{0}) +
         number_bytes(std::uint32_t{0}) + number_bytes(place32) + part.name + extra;
}

std::string zip64_end(std::uint64_t count, std::uint64_t size, std::uint64_t begin) {
  return "PK\x06\x06" + number_bytes(std::uint64_t{44}) + number_bytes(std::uint32_t{0}) +
         number_bytes(std::uint64_t{0}) + number_bytes(count) + number_bytes(count) +
         number_bytes(size) + number_bytes(begin) + "PK\x06\x07" + number_bytes(std::uint32_t{0}) +
         number_bytes(begin + size) + number_bytes(std::uint32_t{1});
}

const std::string kHalf = values<std::uint16_t>({0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600});
const std::string kBools = values<std::uint8_t>({0, 1, 1});

Pairs small_state() {
  return {{"layer.weight", tensor(storage("HalfStorage", "0", 6), {0, {2, 3}, {1, 2}})},
          {"mask", tensor(storage("BoolStorage", "1", 3), {1, {2}, {1}})}};
}

}  // namespace

std::string zip(const std::vector<Part>& parts, const ZipForm& form) {
  std::string bytes;
  std::string directory;
  for (const Part& part : parts) {
    directory += directory_entry(part, bytes.size(), form);
    const std::string extra = local_extra();
    bytes += "PK\x03\x04" + common_fields(part, form) +
             number_bytes(static_cast<std::uint16_t>(extra.size())) + part.name + extra + part.data;
  }
  const std::uint64_t begin = bytes.size();
  bytes += directory;
  if (form.zip64) bytes += zip64_end(parts.size(), directory.size(), begin);
  const auto count = static_cast<std::uint16_t>(form.zip64 ? 0xffff : parts.size());
  return bytes + "PK\x05\x06" + number_bytes(std::uint32_t{0}) + number_bytes(count) +
         number_bytes(count) +
         number_bytes(form.zip64 ? kMost : static_cast<std::uint32_t>(directory.size())) +
         number_bytes(form.zip64 ? kMost : static_cast<std::uint32_t>(begin)) +
         number_bytes(static_cast<std::uint16_t>(form.comment.size())) + form.comment;
}

std::string file(const std::string& pickled, const std::vector<std::string>& storages,
                 const ZipForm& form) {
  std::vector<Part> parts{{"archive/data.pkl", pickled}, {"archive/byteorder", "little"}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    parts.push_back({"archive/data/" + std::to_string(i), storages[i]});
  }
  parts.push_back({"archive/version", "3\n"});
  return zip(parts, form);
}

std::string small_file(const ZipForm& form) {
  const std::string metadata = dict({{"_metadata", ordered_dict({})}}) + "b";
  return file(pickle(ordered_dict(small_state()) + metadata), {kHalf, kBools}, form);
}

std::string checkpoint_file(const ZipForm& form) {
  // Protocol 4: a frame, a name whose length is one byte, a place in the memo, which is asked for.
  const std::string body = "}(" + text("epoch") + integer(3) + "\x8c\x04" + "arch" +
                           text("resnet18") + text("optimizer") + "](" +
                           dict({{"lr", "G12345678"}}) + "\x94" + "h" + std::string(1, '\0') + "N" +
                           "e" + text("state_dict") + dict(small_state()) + "u";
  const std::string frame = "\x95" + number_bytes(std::uint64_t{body.size() + 1});
  return file(pickle(frame + body, 4), {kHalf, kBools}, form);
}

}  // namespace mezzo::io::sample
