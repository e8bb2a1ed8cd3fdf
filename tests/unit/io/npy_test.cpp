#include "mezzo/io/npy.h"

#include <cstring>

#include <gmock/gmock.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/error.h"
#include "mezzo/io/npy_header.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using ByteVector = std::vector<std::byte>;

ByteVector bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const ByteVector& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A file made by hand: version, correct length, dict, data.
ByteVector npy_bytes(int version, std::string_view dict, std::string_view data) {
  std::string text = "\x93NUMPY";
  text += {static_cast<char>(version), '\0'};
  const auto length = static_cast<std::uint32_t>(dict.size());
  text.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  text += dict;
  text += data;
  return bytes_of(text);
}

std::string dict_of(std::string_view dtype, std::string_view shape,
                    std::string_view fortran = "False") {
  return "{'descr': '" + std::string(dtype) + "', 'fortran_order': " + std::string(fortran) +
         ", 'shape': " + std::string(shape) + ", }";
}

std::string npy_error(const ByteVector& bytes) {
  return message_of<FileError>([&] { parse_npy(bytes, "x.npy"); });
}

// A whole file, byte by byte, as the format describes it.
TEST(Npy, GoldenFile) {
  const Tensor tensor = from_values<float>({1, -2}, {2, 1});
  std::string expected = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, 0x76, 0};
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  expected += std::string(58, ' ') + "\n";
  EXPECT_EQ(expected.size(), 128U);
  expected += {0, 0, '\x80', 0x3f, 0, 0, 0, '\xc0'};
  EXPECT_EQ(text_of(serialize_npy(tensor)), expected);
  EXPECT_THAT(parse_npy(bytes_of(expected)).to_vector<float>(), ElementsAre(1, -2));
}

TEST(Npy, ShapesArePythonTuples) {
  const auto shape_in = [](const Tensor& tensor) {
    const std::string text = text_of(serialize_npy(tensor));
    const std::size_t begin = text.find('(');
    return text.substr(begin, text.find(')') + 1 - begin);
  };
  EXPECT_EQ(shape_in(full({}, 1)), "()");
  EXPECT_EQ(shape_in(zeros({3})), "(3,)");
  EXPECT_EQ(shape_in(zeros({2, 0, 3})), "(2, 0, 3)");
  EXPECT_EQ(shape_in(zeros({1, 2, 3, 1, 2, 1})), "(1, 2, 3, 1, 2, 1)");
}

TEST(Npy, EveryDtypeComesBack) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBf16 || is_eight_bit(dtype)) continue;  // numpy has none of them
    const Tensor tensor = zeros({2, 3}, dtype);
    auto* const raw = static_cast<unsigned char*>(tensor.mutable_raw_data());
    const bool is_bool = dtype == DType::kBool;
    for (std::size_t i = 0; i < tensor.bytes(); ++i) {
      raw[i] = static_cast<unsigned char>(is_bool ? i % 2 : 37 * i + 1);
    }
    const ByteVector bytes = serialize_npy(tensor);
    EXPECT_EQ((bytes.size() - tensor.bytes()) % 64, 0U) << name_of(dtype);
    const Tensor read = parse_npy(bytes);
    EXPECT_EQ(concat(read), concat(tensor));
    EXPECT_EQ(std::memcmp(read.raw_data(), raw, tensor.bytes()), 0) << name_of(dtype);
  }
}

TEST(Npy, LayoutsAreWrittenInLogicalOrder) {
  const Tensor plain = arange(24);
  const Tensor tensor =
      alias(plain, {2, 3, 2, 2}, strides_for({2, 3, 2, 2}, Format::kChannelsLast), 0);
  EXPECT_EQ(parse_npy(serialize_npy(tensor)).to_vector<float>(), tensor.to_vector<float>());
}

TEST(Npy, FortranOrderIsRead) {
  const std::string_view data("\0\1\2\3\4\5", 6);
  const Tensor tensor = parse_npy(npy_bytes(1, dict_of("|u1", "(2, 3)", "True"), data));
  EXPECT_EQ(concat(tensor), "u8[2, 3]");
  EXPECT_TRUE(tensor.is_dense());
  EXPECT_THAT(tensor.to_vector<std::uint8_t>(), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_EQ(parse_npy(npy_bytes(1, dict_of("<f4", "(2, 0)", "True"), "")).numel(), 0);
  EXPECT_EQ(parse_npy(npy_bytes(1, dict_of("|u1", "()", "True"), "\7")).item(), 7);
}

TEST(Npy, BigEndianIsConverted) {
  const std::string_view half("\x3c\x00", 2);
  EXPECT_EQ(parse_npy(npy_bytes(1, dict_of(">f2", "()"), half)).item(), 1);
  const std::string_view longs("\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\2", 16);
  EXPECT_THAT(parse_npy(npy_bytes(1, dict_of(">i8", "(2,)"), longs)).to_vector<std::int64_t>(),
              ElementsAre(256, 2));
  EXPECT_EQ(parse_npy(npy_bytes(1, dict_of(">u1", "()"), "\7")).item(), 7);
}

TEST(Npy, AllVersionsAndSpellingsAreRead) {
  for (int version = 1; version <= 3; ++version) {
    EXPECT_EQ(parse_npy(npy_bytes(version, dict_of("|u1", "(1,)") + "   \n", "\7")).item(), 7);
  }
  for (const std::string_view dict : {
           "{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"|u1\"}",
           " { 'descr' : '|u1' , 'fortran_order' : False ,\n'shape' : ( 1 , ) } ",
           "{'descr': '<u1', 'fortran_order': False, 'shape': (1L,), }",
       }) {
    EXPECT_EQ(parse_npy(npy_bytes(1, dict, "\7")).item(), 7) << dict;
  }
}

// The malformed files have one more.
TEST(Npy, AsManyDimensionsAndBytesOfHeaderAsThereMayBeAreRead) {
  const std::string shape = "(1, 1, 1, 1, 1, 2)";
  EXPECT_EQ(parse_npy(npy_bytes(1, dict_of("|u1", shape), "\7\7")).shape(),
            Shape({1, 1, 1, 1, 1, 2}));
  std::string header = dict_of("|u1", "()");
  header.resize(kMaxNpyHeader, ' ');
  EXPECT_EQ(parse_npy(npy_bytes(2, header, "\7")).item(), 7);
}

struct MalformedNpy {
  std::string what;
  ByteVector bytes;
  std::string message;
};

std::vector<MalformedNpy> malformed_starts() {
  ByteVector version_4 = npy_bytes(3, dict_of("|u1", "()"), "\7");
  version_4[6] = std::byte{4};
  ByteVector version_1_1 = npy_bytes(1, dict_of("|u1", "()"), "\7");
  version_1_1[7] = std::byte{1};
  ByteVector long_header = npy_bytes(2, dict_of("|u1", "()"), "\7");
  long_header[11] = std::byte{0xff};
  ByteVector longer_than_file = npy_bytes(1, dict_of("|u1", "()"), "");
  longer_than_file[8] = std::byte{0xff};
  return {
      {"nothing", {}, "short file: it has 0 bytes"},
      {"seven bytes", bytes_of("\x93NUMPY\1"), "short file: it has 7 bytes"},
      {"no length", bytes_of({"\x93NUMPY\1\0\1", 9}), "short file: it has 9 bytes"},
      {"other magic", bytes_of("\x94NUMPY\1\1    "), "not an .npy file"},
      {"a zip archive", bytes_of("PK\3\4........"), "for an .npz archive, unpack the arrays"},
      {"version 4", version_4, "version 4.0 of the format"},
      {"version 1.1", version_1_1, "version 1.1 of the format"},
      {"too long a header", long_header, "at most 10000 are allowed"},
      {"header over the file", longer_than_file, "short file: claims a header of 255 bytes"},
  };
}

MalformedNpy bad_dict(std::string what, std::string_view dict, std::string message) {
  return {std::move(what), npy_bytes(1, dict, "\1\2\3\4"), std::move(message)};
}

std::vector<MalformedNpy> malformed_dicts() {
  const std::string good = dict_of("|u1", "(4,)");
  return {
      bad_dict("empty", "", "found its end, expected '{'"),
      bad_dict("a list", "[]", "found '[]', expected '{'"),
      bad_dict("no end", "{'descr': '|u1'", "expected ','"),
      bad_dict("text behind", good + "x", "found 'x', expected the end"),
      bad_dict("code", "{'descr': __import__('os')}", "found '__import__('os')}', expected text"),
      bad_dict("two fields", "{'descr': '|u1', 'shape': (4,)}", "the header has 2 fields"),
      bad_dict("a field twice", "{'shape': (4,), 'shape': (4,)}", "'shape' occurs twice"),
      bad_dict("an unknown field", "{'order': 'C'}", "unknown field 'order'"),
      bad_dict("text without end", "{'descr", "expected text in quotes"),
      bad_dict("a zero byte", {"{\0}", 3}, "expected text in quotes"),
      bad_dict("other bytes", "{'\xff\xfe': 1}", "unknown field '\?\?'"),
      bad_dict("order is a number", "{'fortran_order': 0}", "found '0}', expected True or False"),
      bad_dict("shape is a number", dict_of("|u1", "4"), "expected '('"),
      bad_dict("brackets of a number", dict_of("|u1", "(4)"), "expected a comma"),
      bad_dict("a list of sizes", dict_of("|u1", "[4]"), "expected '('"),
      bad_dict("negative size", dict_of("|u1", "(-4,)"), "expected an integer of at least 0"),
      bad_dict("fraction", dict_of("|u1", "(4.0,)"), "expected ','"),
      bad_dict("only a comma", dict_of("|u1", "(,)"), "expected an integer"),
      bad_dict("size over 64 bits", dict_of("|u1", "(18446744073709551616,)"), "impossible size"),
      bad_dict("size over 63 bits", dict_of("|u1", "(9223372036854775808,)"), "impossible size"),
      bad_dict("seven dimensions", dict_of("|u1", "(1,1,1,1,1,1,4)"), "more than 6 dimensions"),
  };
}

std::vector<MalformedNpy> malformed_contents() {
  const auto dtype = [](std::string_view name) {
    return bad_dict(
        std::string("dtype ") + std::string(name), dict_of(name, "(2,)"),
        "its dtype is '" + std::string(name) + "', mezzo supports f16 f32 f64 i32 i64 u8 bool");
  };
  return {
      dtype("<i2"),
      dtype("<u4"),
      dtype("|O"),
      dtype("<U3"),
      dtype("<V2"),
      dtype("<c8"),
      dtype("f4"),
      dtype("=f4"),
      dtype("|f4"),
      dtype(""),
      dtype("<"),
      dtype("<M8[s]"),
      bad_dict("records", "{'descr': [('a', '<f4')]}", "its elements are records"),
      bad_dict("short data", dict_of("<f4", "(2,)"),
               "short file: f32[2] takes 8 bytes, the file has 4"),
      bad_dict("data behind", dict_of("|u1", "(3,)"), "too long: u8[3] takes 3 bytes"),
      bad_dict("data of nothing", dict_of("<f4", "(0, 2)"), "too long"),
      bad_dict("overflow", dict_of("|u1", "(4294967296, 4294967296)"), "impossible size"),
      bad_dict("overflow by dtype", dict_of("<i8", "(2305843009213693952,)"), "impossible size"),
      bad_dict("overflow by zero", dict_of("|u1", "(0, 4294967296, 4294967296)"),
               "impossible size"),
      bad_dict("huge", dict_of("|u1", "(9223372036854775807,)"), "short file"),
      bad_dict("a bool of 2", dict_of("|b1", "(4,)"), "element 1 is 2, a bool is 0 or 1"),
  };
}

TEST(Npy, EveryMalformedFileSaysWhatIsWrong) {
  std::vector<MalformedNpy> files;
  for (const auto& group : {malformed_starts(), malformed_dicts(), malformed_contents()}) {
    files.insert(files.end(), group.begin(), group.end());
  }
  EXPECT_GT(files.size(), 50U);
  for (const MalformedNpy& malformed : files) {
    SCOPED_TRACE(malformed.what);
    const std::string message = npy_error(malformed.bytes);
    EXPECT_THAT(message, AllOf(StartsWith("[npy] x.npy: "), HasSubstr(malformed.message)));
    EXPECT_LT(message.size(), 300U);
  }
}

TEST(Npy, EveryTruncationIsFound) {
  const TempFolder folder;
  const ByteVector whole = serialize_npy(from_values<float>({1, 2, 3}, {3}));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const ByteVector part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THAT(npy_error(part), HasSubstr("short file")) << length;
  }
  const std::string text = text_of(whole).substr(0, whole.size() - 1);
  const std::string path = folder.write("x.npy", {text.begin(), text.end()});
  EXPECT_EQ(message_of<FileError>([&] { read_npy(path); }),
            "[npy] " + path +
                ": short file: f32[3] takes 12 bytes, the file has 11. Copy or download the file "
                "again");
}

void try_parse(const ByteVector& bytes) {
  try {
    parse_npy(bytes);
  } catch (const FileError&) {
    return;
  }
}

// Whatever the bytes are, the parser returns a tensor or throws a FileError, and takes no more
// memory than the file has.
TEST(Npy, DamagedFilesParseOrFailCleanly) {
  const ByteVector whole = serialize_npy(from_values<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  cpu_allocator().reset_peak();
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  for (std::size_t i = 0; i < whole.size() * 256; ++i) {
    ByteVector damaged = whole;
    damaged[i / 256] = static_cast<std::byte>(i % 256);
    try_parse(damaged);
  }
  EXPECT_EQ(cpu_allocator().stats().live_bytes, before);
  EXPECT_LE(cpu_allocator().stats().peak_bytes - before, 1024);
}

TEST(Npy, FilesHoldTheSameBytes) {
  const TempFolder folder;
  const std::string path = folder.path("x.npy");
  const Tensor tensor = from_values<std::int64_t>({1, -1}, {2});
  write_npy(path, tensor);
  const data::Bytes read = TempFolder::read(path);
  EXPECT_EQ(std::string(read.begin(), read.end()), text_of(serialize_npy(tensor)));
  EXPECT_THAT(read_npy(path).to_vector<std::int64_t>(), ElementsAre(1, -1));
  EXPECT_THAT(message_of<FileError>([&] { read_npy(folder.path("none")); }),
              HasSubstr("cannot be opened: No such file or directory"));
  EXPECT_THAT(message_of<FileError>([&] { write_npy(folder.path("none/x.npy"), tensor); }),
              HasSubstr("cannot be created"));
}

TEST(Npy, RefusesWhatNumpyDoesNotHave) {
  EXPECT_EQ(message_of<ArgumentError>([] { serialize_npy(zeros({2}, DType::kBf16)); }),
            "[npy] numpy has no bf16: bf16[2]. Cast it to f32, which holds every bf16 value, or "
            "write safetensors");
  EXPECT_EQ(message_of<ArgumentError>([] { serialize_npy(zeros({2}, DType::kE4m3)); }),
            "[npy] numpy has no e4m3: e4m3[2]. Cast it to f32, which holds every e4m3 value, or "
            "write safetensors");
  EXPECT_THAT(message_of<ArgumentError>([] { serialize_npy(Tensor()); }),
              HasSubstr("the tensor is undefined"));
}

}  // namespace
}  // namespace mezzo::io
