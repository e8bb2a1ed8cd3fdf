#include <limits>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/io/pytorch_file.h"
#include "mezzo/io/safetensors.h"
#include "tests/unit/io/pytorch_sample.h"
#include "tests/unit/message_of.h"

namespace mezzo::io {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct RefusedFile {
  std::string what;
  std::string file;
  std::string message;
};

std::string pytorch_error(const std::string& file) {
  return message_of<FileError>([&] { parse_pytorch(sample::bytes_of(file), "x.pth"); });
}

void expect_refused(const std::vector<RefusedFile>& cases) {
  for (const RefusedFile& refused : cases) {
    const std::string error = pytorch_error(refused.file);
    EXPECT_THAT(error, StartsWith("[pytorch] x.pth: ")) << refused.what;
    EXPECT_THAT(error, HasSubstr(refused.message)) << refused.what;
    EXPECT_NE(error.find(". "), std::string::npos) << refused.what << ": " << error;
  }
}

// A file whose pickle pushes that value.
std::string holding(const std::string& pushed) {
  return sample::file(sample::pickle(pushed), {std::string(24, '\0')});
}

std::string with_tensor(const std::string& pushed) {
  return holding(sample::dict({{"a", pushed}}));
}

std::string with_parts(const std::vector<sample::Part>& more) {
  std::vector<sample::Part> parts{{"x/data.pkl", sample::pickle("}")}};
  parts.insert(parts.end(), more.begin(), more.end());
  return sample::zip(parts);
}

TEST(PytorchRefused, OtherFiles) {
  expect_refused(
      {{"nothing", "", "not a file of torch.save(): it begins with ''"},
       {"another file", "hello, world, how are you?", "begins with 'hello, world, '"},
       {"not text", "\xff\xfe", "begins with '\\xff\\xfe'"},
       {"legacy", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
        "the format of PyTorch before 1.6. Load it with torch.load()"},
       {"a start alone", "PK\x03\x04", "no zip directory"},
       {"another archive", sample::zip({{"a/b", "c"}, {"data.pkl", "d"}, {"a/b/data.pkl", "d"}}),
        "zip archive of 3 entries without a data.pkl"},
       {"TorchScript", with_parts({{"x/constants.pkl", ""}}), "TorchScript"},
       {"TorchScript's code", with_parts({{"x/code/a.py", ""}}), "torch.jit.load()"},
       {"big-endian", with_parts({{"x/byteorder", "big"}}), "its byte order is 'big'"},
       {"a new version", with_parts({{"x/version", "11\n"}}), "its version is '11'"},
       {"no version", with_parts({{"x/version", "x"}}), "its version is 'x'"}});
}

TEST(PytorchRefused, Archives) {
  const std::string pickled = sample::pickle("}");
  std::string torn = sample::small_file();
  torn[torn.find("ZZZZZ") + 5] ^= 1;  // in the pickle
  std::string moved = sample::zip({{"x/data.pkl", pickled}});
  moved[moved.find("x/data.pkl")] = 'y';
  std::string far = sample::small_file({.zip64 = true});
  far[far.find("PK\x06\x07") + 15] = 1;
  expect_refused(
      {{"compressed", sample::zip({{"x/data.pkl", pickled, 8}}), "is compressed by method 8"},
       {"encrypted", sample::zip({{"x/data.pkl", pickled, 0, 1}}), "is encrypted"},
       {"a name twice", with_parts({{"x/a", ""}, {"x/a", ""}}),
        "two of its entries are called 'x/a'"},
       {"a name that is not text", with_parts({{"\xff", ""}, {"\xff", ""}}), "called '\\xff'"},
       {"a checksum", torn, "has the CRC-32 "},
       {"another name before the data", moved, "should begin at byte 0, where it is not"},
       {"zip64 beyond the end", far, "its zip64 record should be at byte "}});
}

TEST(PytorchRefused, Objects) {
  const std::string weight = sample::six({0, {6}, {1}});
  const std::string state = sample::dict({{"w", weight}});
  expect_refused(
      {{"a list", holding("]"), "it holds a list, expected a dict"},
       {"a tensor", holding(weight), "it holds a tensor"},
       {"a number", with_tensor(sample::integer(3)), "'a' is a number, expected a tensor"},
       {"a text", with_tensor(sample::text("t")), "'a' is a text"},
       {"None", with_tensor("N"), "'a' is None"},
       {"a dict", with_tensor("}"), "'a' is a dict"},
       {"a key that is a number", holding("}(" + sample::integer(0) + weight + "u"),
        "key 0 of its dict is a number"},
       {"a name twice", holding(sample::dict({{"a", weight}, {"a", weight}})), "'a' occurs twice"},
       {"a number in a state", holding(sample::dict({{"state_dict", sample::dict({{"n", "N"}})}})),
        "'n' is None"},
       {"two states", holding(sample::dict({{"state_dict", state}, {"model", state}})),
        "under both 'state_dict' and 'model'"}});
}

TEST(PytorchRefused, Functions) {
  expect_refused(
      {{"a program", holding(sample::global("os", "system")),
        "refers to 'os.system', which is no part"},
       {"a network", holding(sample::global("net", "Net")), "'net.Net'"},
       {"by texts", holding(sample::text("os") + sample::text("system") + "\x93"), "'os.system'"},
       {"another way to make a tensor", holding(sample::global("torch._utils", "_rebuild_qtensor")),
        "_rebuild_qtensor"},
       {"eight bits", holding(sample::global("torch._utils", "_rebuild_tensor_v3")),
        "_rebuild_tensor_v3', thus of a float8 or an unsigned dtype"},
       {"other elements", holding(sample::global("torch", "ShortStorage")),
        "a tensor in a 'torch.ShortStorage', mezzo supports FloatStorage"},
       {"a storage of another module", holding(sample::global("os", "FloatStorage")),
        "not executed"},
       {"a call of a tuple", holding("))R"), "its pickle has a tuple in place of a function"},
       {"a call of a type", holding(sample::global("torch", "FloatStorage") + ")R"),
        "has a type of storages in place of a function"},
       {"a dict of arguments", holding(sample::global("collections", "OrderedDict") + "N\x85R"),
        "an OrderedDict of 1 arguments"},
       {"a parameter of None", holding(sample::parameter("N")), "a parameter of something other"}});
}

TEST(PytorchRefused, Pickles) {
  const std::string zero(1, '\0');
  expect_refused(
      {{"no protocol", sample::file("}."), "does not begin with PROTO"},
       {"protocol 1", sample::file(sample::pickle("}", 1)),
        "is pickled by protocol 1, mezzo reads 2 to 5"},
       {"protocol 6", sample::file(sample::pickle("}", 6)), "is pickled by protocol 6"},
       {"an instruction", holding("N\x81"), "at byte 3, its pickle has the instruction NEWOBJ"},
       {"bytes", holding("C" + zero), "the instruction SHORT_BINBYTES"},
       {"no instruction", holding("\xff"), "the byte 255, which is no instruction"},
       {"no end", sample::file("\x80\x02}"), "ends within a value of 1 bytes"},
       {"a text beyond the end", holding("X\xff\xff\xff\xff"),
        "ends within a value of 4294967295 bytes"},
       {"a text of 64 bits", holding("\x8d" + std::string(8, '\xff')), "ends within a value of"},
       {"a long number beyond the end", holding("\x8b\xff\xff\xff\xff"), "ends within a value"},
       {"a line without end", holding("cos"), "ends within a value of 1 bytes"},
       {"not text", holding(sample::text("\xff")), "a text that is not UTF-8: '\\xff'"},
       {"a name that is not text", holding(sample::global("\xff", "a")), "not UTF-8"},
       {"nothing on the stack", holding("s"), "takes a value of none"},
       {"nothing above the mark", holding("N(R"), "takes a value of none"},
       {"no mark", holding("Nt"), "takes a mark of none"},
       {"a key without a value", holding("}(Nu"), "a key without a value"},
       {"two values", holding("}}"), "ends with 2 values"},
       {"more after the end", sample::file(sample::pickle("}") + "."), "goes on after its end"},
       {"an unknown place", holding("h\x05"), "asks for the unknown place 5"},
       {"a place far off", holding("}r\xff\xff\xff\xff"), "notes a value at the place 4294967295"},
       {"a frame", holding("\x95" + std::string(8, '\xff')),
        "a frame of 18446744073709551615 bytes"},
       {"an element of a dict", holding("}Na"), "has a dict in place of a list"},
       {"attributes of a list", holding("]}b"), "has a list in place of a dict"}});
}

TEST(PytorchRefused, Tensors) {
  const auto of_storage = [](const std::string& storage) {
    return with_tensor(sample::tensor(storage, {0, {1}, {1}}));
  };
  const auto made_of = [](const std::vector<std::string>& arguments) {
    return with_tensor(sample::global("torch._utils", "_rebuild_tensor_v2") +
                       sample::tuple(arguments) + "R");
  };
  const std::string six_floats = sample::storage("FloatStorage", "0", 6);
  const std::string negated = sample::dict({{"neg", "\x88"}});
  expect_refused(
      {{"too few arguments", made_of({"N"}), "tensor 'a': it is made of 1 values"},
       {"no storage", of_storage("N"), "it is made of None, expected a storage"},
       {"a storage of nothing", of_storage(")Q"), "not described by a type, a key and a size"},
       {"a missing storage", of_storage(sample::storage("FloatStorage", "9", 6)),
        "storage '9' is missing"},
       {"a short storage", of_storage(sample::storage("FloatStorage", "0", 7)),
        "storage '0' of 7 elements of f32 has 24 bytes"},
       {"a storage of wide elements", of_storage(sample::storage("DoubleStorage", "0", 6)),
        "of f64 has 24"},
       {"a storage of many elements", of_storage(sample::storage("DoubleStorage", "0", kMost)),
        "has 24 bytes"},
       {"a negative storage", of_storage(sample::storage("FloatStorage", "0", -6)), "size is -6"},
       {"beyond the storage", with_tensor(sample::six({1, {6}, {1}})),
        "its sizes [6] with strides [1] from element 1 on exceed its storage of 6 elements"},
       {"strides beyond it", with_tensor(sample::six({0, {2, 3}, {4, 1}})), "exceed its storage"},
       {"an offset beyond it", with_tensor(sample::six({7, {0}, {1}})), "exceed its storage"},
       {"strides of 63 bits", with_tensor(sample::six({0, {3, 3}, {kMost, kMost}})),
        "exceed its storage"},
       {"sizes of 63 bits", with_tensor(sample::six({0, {kMost, 0}, {1, 1}})),
        "exceed its storage"},
       {"a stride missing", with_tensor(sample::six({0, {2, 3}, {1}})), "exceed its storage"},
       {"a negative size", with_tensor(sample::six({0, {-1}, {1}})), "its size is -1"},
       {"a negative stride", with_tensor(sample::six({5, {6}, {-1}})), "its stride is -1"},
       {"seven dimensions",
        with_tensor(
            sample::six({0, std::vector<std::int64_t>(7, 1), std::vector<std::int64_t>(7, 1)})),
        "it has 7 dimensions, mezzo supports 6"},
       {"an offset of None", made_of({six_floats, "N", ")", ")", "\x89", "}"}),
        "its offset is None"},
       {"sizes in a list", made_of({six_floats, "K\x01", "]", ")", "\x89", "}"}),
        "its sizes are a list"},
       {"a negated view", made_of({six_floats, "K\x01", ")", ")", "\x89", "}", negated}),
        "negated or conjugated"}});
}

TEST(PytorchRefused, StoragesThatDiffer) {
  const std::string first = sample::six({0, {6}, {1}});
  const std::string second = sample::tensor(sample::storage("IntStorage", "0", 6), {0, {6}, {1}});
  expect_refused({{"another dtype", holding(sample::dict({{"a", first}, {"b", second}})),
                   "tensor 'b': its storage '0' has 6 elements of i32, but 6 of f32"}});
}

TEST(PytorchRefused, BoolsThatAreNot) {
  const std::string file = sample::file(
      sample::pickle(sample::dict(
          {{"a", sample::tensor(sample::storage("BoolStorage", "0", 2), {0, {2}, {1}})}})),
      {"\x01\x02"});
  EXPECT_EQ(
      pytorch_error(file),
      "[pytorch] x.pth: element 1 of storage '0' is 2, a bool is 0 or 1. Copy or download the "
      "file again");
}

// A few bytes cannot ask for much memory: neither by a stride of 0 nor by many views.
TEST(PytorchRefused, ElementsRepeatedWithoutEnd) {
  const std::string most = "they take more than 4 times its ";
  sample::Pairs many;
  const std::string large(100'000, '\0');
  for (int i = 0; i < 20; ++i) {
    many.emplace_back(
        "t" + std::to_string(i),
        sample::tensor(sample::storage("FloatStorage", "0", 25'000), {i, {24'000}, {1}}));
  }
  expect_refused({{"strides of 0", with_tensor(sample::six({0, {1'000'000'000}, {0}})), most},
                  {"many views", sample::file(sample::pickle(sample::dict(many)), {large}), most}});
}

// What is left of a file gives the same tensors, or an error that names it.
void expect_same_or_refused(const std::string& damaged, const std::vector<std::byte>& sound) {
  try {
    EXPECT_EQ(serialize_safetensors(parse_pytorch(sample::bytes_of(damaged), "x.pth")), sound);
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), StartsWith("[pytorch] x.pth: "));
  }
}

TEST(PytorchRefused, DamageAtEveryByte) {
  for (const std::string& file :
       {sample::small_file(), sample::small_file({.zip64 = true}), sample::checkpoint_file()}) {
    const std::vector<std::byte> sound =
        serialize_safetensors(parse_pytorch(sample::bytes_of(file)));
    for (std::size_t at = 0; at < file.size(); ++at) {
      EXPECT_THAT(pytorch_error(file.substr(0, at)), StartsWith("[pytorch] x.pth: "));
      for (const int change : {0x01, 0x10, 0x80, 0xff}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        expect_same_or_refused(damaged, sound);
      }
    }
  }
}

// Without checksums, damage reaches the reader of pickles and views. It may change names and
// values, but anything else than tensors is a FileError.
TEST(PytorchRefused, DamageWithoutChecksums) {
  constexpr int kStep = 5;  // of the changes
  const sample::ZipForm form{.has_checksums = false};
  for (const std::string& file : {sample::small_file(form), sample::checkpoint_file(form)}) {
    for (std::size_t i = 0; i < file.size() * 255; i += kStep) {
      std::string damaged = file;
      damaged[i / 255] = static_cast<char>(damaged[i / 255] ^ static_cast<int>(1 + i % 255));
      try {
        parse_pytorch(sample::bytes_of(damaged), "x.pth");
      } catch (const FileError& error) {
        EXPECT_THAT(error.what(), StartsWith("[pytorch] x.pth: "));
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::io
