#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/error.h"
#include "mezzo/io/safetensors.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/safetensors_bytes.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using ByteVector = std::vector<std::byte>;

std::string safetensors_error(const ByteVector& bytes) {
  return message_of<FileError>([&] { parse_safetensors(bytes, "x.safetensors"); });
}

std::string write_to(const TempFolder& folder, const ByteVector& bytes) {
  data::Bytes copy;
  for (const std::byte b : bytes) copy.push_back(std::to_integer<std::uint8_t>(b));
  return folder.write("x.safetensors", copy);
}

// Two tensors with everything that a header can have.
ByteVector small_file() {
  return file_bytes(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"U8","shape":[2,2],"data_offsets":[8,12]}}  )",
      12);
}

struct MalformedSafetensors {
  std::string what;
  ByteVector bytes;
  std::string message;
};

// A header with one tensor `a` with these fields.
std::string entry(std::string_view fields) { return "{\"a\":{" + std::string(fields) + "}}"; }

constexpr const char* kGood = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";

// A header with two tensors of four bytes.
std::string two(std::string_view first, std::string_view second) {
  return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(first) +
         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(second) + "}}";
}

std::vector<MalformedSafetensors> malformed_text() {
  const auto length_is = [](std::uint64_t length) {
    ByteVector bytes = file_bytes("{}      ");
    std::memcpy(bytes.data(), &length, 8);
    return bytes;
  };
  return {
      {"nothing", {}, "short file: it has 0 bytes"},
      {"seven bytes", ByteVector(7), "short file: it has 7 bytes"},
      {"length over the limit", length_is(100'000'001), "at most 100000000 are allowed"},
      {"length of all ones", length_is(~std::uint64_t{0}),
       "claims a header of 1844674407370955161"},
      {"length over the file", length_is(9), "a header of 9 bytes, the file has 8 for it"},
      {"length at the limit", length_is(100'000'000), "the file has 8 for it"},
      {"no header", file_bytes(""), "not a JSON object"},
      {"not UTF-8", file_bytes("{\"\xc3(\":{}}"), "not UTF-8: its byte 2 is 195"},
      {"a byte order mark", file_bytes("\xef\xbb\xbf{}"), "not a JSON object"},
      {"a list", file_bytes("[]"), "not a JSON object: it begins with '[]', expected '{'"},
      {"text hidden behind a zero", file_bytes({"{}\0{}", 5}), "not JSON: its byte 2 is 0"},
      {"not JSON", file_bytes("{x}"), "not JSON, up to its byte 2"},
      {"no end", file_bytes("{"), "not JSON"},
      {"text after the end", file_bytes("{} {}"), "not JSON"},
      {"a comment", file_bytes("{/**/}"), "not JSON"},
      {"a comma too many", file_bytes(entry(std::string(kGood) + ",")), "not JSON"},
      {"half a surrogate", file_bytes(R"({"\ud800":{}})"), "not JSON"},
      {"a control character", file_bytes("{\"\n\":{}}"), "not JSON"},
      {"an endless number", file_bytes(R"({"a":1e999})"), "not JSON"},
      {"deep nesting", file_bytes("{\"a\":" + std::string(100'000, '[')), "found a list"},
      {"deep objects", file_bytes(R"({"a":{"shape":{"a":{"a":{}}}}})"), "found an object"},
      {"nested sizes", file_bytes(header_of("U8", "[[4]]", "[0,4]"), 4), "found a list"},
  };
}

std::vector<MalformedSafetensors> malformed_entries() {
  return {
      {"a number for a tensor", file_bytes(R"({"a":1})"), "found 1 as 'a', expected an object"},
      {"null for a tensor", file_bytes(R"({"a":null})"), "found null as 'a'"},
      {"metadata is text", file_bytes(R"({"__metadata__":"pt"})"), "expected an object"},
      {"a number in metadata", file_bytes(R"({"__metadata__":{"a":1}})"), "expected text"},
      {"an object in metadata", file_bytes(R"({"__metadata__":{"a":{}}})"), "found an object"},
      {"a name twice", file_bytes("{\"a\":{" + std::string(kGood) + "},\"a\":{" + kGood + "}}", 4),
       "the header: 'a' occurs twice"},
      {"a name twice, once escaped",
       file_bytes("{\"a\":{" + std::string(kGood) + R"(},"\u0061":{})" + "}", 4),
       "the header: 'a' occurs twice"},
      {"metadata twice", file_bytes(R"({"__metadata__":{},"__metadata__":{}})"),
       "'__metadata__' occurs twice"},
      {"a key of metadata twice", file_bytes(R"({"__metadata__":{"k":"1","k":"2"}})"),
       "__metadata__: 'k' occurs twice"},
      {"a field twice", file_bytes(entry(std::string(kGood) + R"(,"dtype":"U8")"), 4),
       "tensor 'a': 'dtype' occurs twice"},
      {"an unknown field", file_bytes(entry(std::string(kGood) + R"(,"scale":1)"), 4),
       "unknown field 'scale'"},
      {"no fields", file_bytes(entry("")), "tensor 'a': 0 fields, expected dtype, shape and"},
      {"no dtype", file_bytes(entry(R"("shape":[],"data_offsets":[0,0])")), "2 fields"},
      {"no shape", file_bytes(entry(R"("dtype":"U8","data_offsets":[0,1])"), 1), "2 fields"},
      {"no offsets", file_bytes(entry(R"("dtype":"U8","shape":[])")), "2 fields"},
  };
}

std::vector<MalformedSafetensors> malformed_dtypes_and_shapes() {
  return {
      {"unknown dtype", file_bytes(header_of("F33", "[1]", "[0,4]"), 4),
       "tensor 'a' has the dtype 'F33', mezzo supports BOOL U8 F8_E5M2 F8_E4M3 F16 BF16 I32 F32 "
       "F64 I64"},
      {"dtype that mezzo lacks", file_bytes(header_of("F8_E8M0", "[4]", "[0,4]"), 4),
       "tensor 'a' has the dtype 'F8_E8M0'"},
      {"dtype is a number", file_bytes(entry(R"("dtype":8)")), "found 8 as 'dtype', expected text"},
      {"shape is text", file_bytes(entry(R"("shape":"4")")), "found the text '4' as 'shape'"},
      {"negative size", file_bytes(header_of("U8", "[-4]", "[0,4]"), 4), "found -4 as 'shape'"},
      {"negative zero", file_bytes(header_of("U8", "[-0]", "[0,0]")), "expected an integer"},
      {"fractional size", file_bytes(header_of("U8", "[4.0]", "[0,4]"), 4),
       "found '4.0' as 'shape'"},
      {"size as power", file_bytes(header_of("U8", "[4e0]", "[0,4]"), 4), "found '4e0' as 'shape'"},
      {"size is true", file_bytes(header_of("U8", "[true]", "[0,1]"), 1), "found true as 'shape'"},
      {"size over 64 bits", file_bytes(header_of("U8", "[18446744073709551616]", "[0,4]"), 4),
       "found '18446744073709551616' as 'shape'"},
      {"size over 63 bits", file_bytes(header_of("U8", "[9223372036854775808]", "[0,4]"), 4),
       "impossible size: 9223372036854775808"},
      {"too many dimensions", file_bytes(header_of("U8", "[1,1,1,1,1,1,4]", "[0,4]"), 4),
       "tensor 'a' has more than 6 dimensions"},
  };
}

std::vector<MalformedSafetensors> malformed_places() {
  return {
      {"one offset", file_bytes(header_of("U8", "[4]", "[4]"), 4), "1 data offsets, expected"},
      {"three offsets", file_bytes(header_of("U8", "[4]", "[0,4,4]"), 4), "expected two integers"},
      {"fractional offset", file_bytes(header_of("U8", "[4]", "[0,4.5]"), 4),
       "expected two integers"},
      {"negative offset", file_bytes(header_of("U8", "[4]", "[-1,3]"), 4), "expected two integers"},
      {"backwards", file_bytes(two("[0,4]", "[4,0]"), 8),
       "its data offsets are 4 to 0, which go backwards"},
      {"a hole at the start", file_bytes(header_of("U8", "[4]", "[4,8]"), 8),
       "4 to 8, which leave a hole before it, expected 0 on"},
      {"a hole between", file_bytes(two("[0,4]", "[5,9]"), 9),
       "leave a hole before it, expected 4"},
      {"overlap", file_bytes(two("[0,4]", "[3,7]"), 7),
       "tensor 'b': its data offsets are 3 to 7, "
       "which overlap the tensor before"},
      {"the same place twice", file_bytes(two("[0,4]", "[0,4]"), 4), "overlap the tensor before"},
      {"fewer bytes than the shape", file_bytes(header_of("U8", "[5]", "[0,4]"), 4),
       "tensor 'a': U8[5] takes 5 bytes, its data offsets span 4"},
      {"more bytes than the shape", file_bytes(header_of("F32", "[]", "[0,8]"), 8),
       "F32[] takes 4 bytes, its data offsets span 8"},
      {"bytes for an empty tensor", file_bytes(header_of("U8", "[0,3]", "[0,3]"), 3),
       "takes 0 bytes"},
      {"overflowing product", file_bytes(header_of("U8", "[4294967296,4294967296]", "[0,0]")),
       "impossible size"},
      {"overflow by the dtype", file_bytes(header_of("I64", "[2305843009213693952]", "[0,0]")),
       "impossible size"},
      {"overflow beside a zero", file_bytes(header_of("U8", "[0,4294967296,4294967296]", "[0,0]")),
       "impossible size"},
      {"huge but consistent",
       file_bytes(header_of("U8", "[9223372036854775807]", "[0,9223372036854775807]"), 4),
       "short file: the header claims 9223372036854775807 bytes of data, the file has 4"},
      {"data cut off", file_bytes(header_of("U8", "[4]", "[0,4]"), 3),
       "short file: the header claims 4"},
      {"data behind the end", file_bytes(header_of("U8", "[4]", "[0,4]"), 5),
       "too long: the header claims 4 bytes of data, the file has 5"},
      {"data without tensors", file_bytes("{}", 1), "too long"},
      {"a bool of 2", file_bytes(header_of("BOOL", "[3]", "[0,3]"), 3),
       "element 2 of tensor 'a' is 2, a BOOL is 0 or 1"},
  };
}

TEST(SafetensorsRead, EveryMalformedFileSaysWhatIsWrong) {
  const TempFolder folder;
  std::vector<MalformedSafetensors> files;
  for (const auto& group :
       {malformed_text(), malformed_entries(), malformed_dtypes_and_shapes(), malformed_places()}) {
    files.insert(files.end(), group.begin(), group.end());
  }
  EXPECT_GT(files.size(), 60U);
  for (const MalformedSafetensors& malformed : files) {
    SCOPED_TRACE(malformed.what);
    const std::string message = safetensors_error(malformed.bytes);
    EXPECT_THAT(message,
                AllOf(StartsWith("[safetensors] x.safetensors: "), HasSubstr(malformed.message)));
    EXPECT_LT(message.size(), 400U);
    // Reading a file gives the same answer, except for the name.
    const std::string path = write_to(folder, malformed.bytes);
    EXPECT_EQ(message_of<FileError>([&] { read_safetensors(path); }),
              "[safetensors] " + path + message.substr(message.find(": ")));
  }
}

TEST(SafetensorsRead, EveryTruncationIsFound) {
  const TempFolder folder;
  const ByteVector whole = small_file();
  EXPECT_EQ(parse_safetensors(whole).tensors.size(), 2U);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const ByteVector part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THAT(safetensors_error(part), HasSubstr("short file")) << length;
    const std::string path = write_to(folder, part);
    EXPECT_THAT(message_of<FileError>([&] { read_safetensors(path); }), HasSubstr("short file"));
  }
}

// Whatever the bytes are, the parser returns tensors or throws a FileError, and takes no more
// memory for tensors than there are bytes (and a cache line for each).
TEST(SafetensorsRead, DamagedFilesParseOrFailCleanly) {
  const ByteVector whole = small_file();
  const auto try_parse = [](const ByteVector& bytes) {
    try {
      parse_safetensors(bytes);
    } catch (const FileError&) {
      return;
    }
  };
  cpu_allocator().reset_peak();
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      ByteVector damaged = whole;
      damaged[i] = static_cast<std::byte>(value);
      try_parse(damaged);
    }
  }
  std::mt19937 random(1);
  const std::string_view pieces = "{}[]\",:0123456789-.eE tfn\\";
  for (int round = 0; round < 20'000; ++round) {
    ByteVector damaged = whole;
    for (int change = 0; change < 3; ++change) {
      const auto place = static_cast<std::ptrdiff_t>(8 + random() % (damaged.size() - 8));
      const auto piece = static_cast<std::byte>(pieces[random() % pieces.size()]);
      if (random() % 2 == 0) {
        damaged[static_cast<std::size_t>(place)] = piece;
      } else {
        damaged.insert(damaged.begin() + place, piece);
        damaged[0] = static_cast<std::byte>(std::to_integer<int>(damaged[0]) + 1);
      }
    }
    try_parse(damaged);
  }
  EXPECT_EQ(cpu_allocator().stats().live_bytes, before);
  EXPECT_LE(cpu_allocator().stats().peak_bytes - before, 1024);
}

TEST(SafetensorsRead, OtherWritersOrderAndSpacingAreAccepted) {
  const std::string header =
      " {\n\"b\" : {\"data_offsets\": [4, 6], \"shape\": [ 2 ], \"dtype\": \"U8\"},\r\n\t"
      "\"empty\": {\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[4,4]},"
      "\"\\u0061\": {\"shape\":[2,2],\"dtype\":\"U8\",\"data_offsets\":[0,4]} ,"
      "\"__metadata__\":{}} \n";
  const SafetensorsFile file = parse_safetensors(file_bytes(header, 6));
  ASSERT_EQ(file.tensors.size(), 3U);
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[0].tensor.to_vector<std::uint8_t>(),
            std::vector<std::uint8_t>({0, 1, 2, 3}));
  EXPECT_EQ(file.tensors[1].name, "empty");
  EXPECT_EQ(concat(file.tensors[1].tensor), "f16[0]");
  EXPECT_EQ(file.tensors[2].name, "b");
  EXPECT_EQ(file.tensors[2].tensor.to_vector<std::uint8_t>(), std::vector<std::uint8_t>({4, 5}));
  EXPECT_TRUE(file.metadata.empty());
}

// The bytes with which the reference implementation tests itself.
TEST(SafetensorsRead, GoldenFilesAreRead) {
  const std::string_view nothing("\x08\0\0\0\0\0\0\0{}      ", 16);
  const auto nothing_bytes = std::as_bytes(std::span(nothing));
  EXPECT_TRUE(parse_safetensors(nothing_bytes).tensors.empty());
  std::string golden("\x40\0\0\0\0\0\0\0", 8);
  golden += R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})";
  golden +=
      std::string_view("\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40", 24);
  const SafetensorsFile attention = parse_safetensors(std::as_bytes(std::span(golden)));
  ASSERT_EQ(attention.tensors.size(), 1U);
  EXPECT_EQ(attention.tensors[0].name, "attn.0");
  EXPECT_EQ(concat(attention.tensors[0].tensor), "f32[1, 2, 3]");
  EXPECT_EQ(attention.tensors[0].tensor.to_vector<std::int64_t>(),
            std::vector<std::int64_t>({0, 1, 2, 3, 4, 5}));

  EXPECT_TRUE(parse_safetensors(file_bytes("{}")).tensors.empty());
  const SafetensorsFile file = parse_safetensors(file_bytes(header_of("I64", "[]", "[0,8]"), 8));
  EXPECT_EQ(file.tensors[0].tensor.rank(), 0U);
  EXPECT_EQ(file.tensors[0].tensor.to_vector<std::int64_t>()[0], 0x0706050403020100);
}

TEST(SafetensorsRead, MissingAndOddFilesAreNamed) {
  const TempFolder folder;
  const auto read = [&](const std::string& path) {
    return message_of<FileError>([&] { read_safetensors(path); });
  };
  EXPECT_EQ(
      read(folder.path("none")),
      "[safetensors] " + folder.path("none") +
          ": cannot be opened: No such file or directory. Check the path and its permissions");
  EXPECT_THAT(read(folder.path()), EndsWith(": not a regular file. Check the path"));
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(read(folder.path("pipe")), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace mezzo::io
