// Tests checkpoints that were damaged after they were written.
#include <filesystem>
#include <map>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/io/checkpoint_folder.h"
#include "mezzo/io/checkpoint_manifest.h"
#include "mezzo/io/crc32c.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Files = std::map<std::string, data::Bytes>;

// Two checkpoints: that of step 10 is sound, that of step 20 is damaged by the test.
class DamagedCheckpointTest : public ::testing::Test {
 protected:
  DamagedCheckpointTest() {
    write_checkpoint(folder_.path(), sample_checkpoint(10));
    newest_ = std::filesystem::path(write_checkpoint(folder_.path(), sample_checkpoint(20)))
                  .filename()
                  .string();
    for (const std::string& name : names_in(folder_.path(newest_))) {
      files_[name] = TempFolder::read(folder_.path(newest_ + "/" + name));
    }
  }

  void put(const std::string& name, const data::Bytes& bytes) const {
    // Removed first: some file systems flush an overwritten file to the disk, which is slow.
    std::filesystem::remove(folder_.path(newest_ + "/" + name));
    folder_.write(newest_ + "/" + name, bytes);
  }
  // Expects that reading falls back, and returns the reason.
  std::string reason() const {
    CaughtLog log;
    const FoundCheckpoint found = read_latest_checkpoint(folder_.path());
    EXPECT_TRUE(same_checkpoint(found.checkpoint, sample_checkpoint(10)));
    EXPECT_EQ(log.lines.size(), 2U);
    return found.damaged.empty() ? "" : found.damaged[0].problem;
  }
  bool is_sound() const { return read_latest_checkpoint(folder_.path()).damaged.empty(); }

  TempFolder folder_;
  std::string newest_;
  Files files_;
};

TEST_F(DamagedCheckpointTest, SaysWhatHappened) {
  put("model.safetensors", {1, 2, 3});
  CaughtLog log;
  const FoundCheckpoint found = read_latest_checkpoint(folder_.path());
  const std::string problem = "[checkpoint] " + folder_.path(newest_) +
                              "/model.safetensors: damaged: it has 3 bytes, the manifest says " +
                              std::to_string(files_["model.safetensors"].size()) +
                              ". Use another checkpoint";
  ASSERT_EQ(found.damaged.size(), 1U);
  EXPECT_EQ(found.damaged[0].path, folder_.path(newest_));
  EXPECT_EQ(found.damaged[0].problem, problem);
  EXPECT_THAT(log.lines, ElementsAre("a checkpoint is skipped: " + problem,
                                     "the newest intact checkpoint is " +
                                         folder_.path("000001-step-10") + ", step 10"));
}

TEST_F(DamagedCheckpointTest, EveryFlippedBitIsFound) {
  for (const auto& [name, bytes] : files_) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      data::Bytes flipped = bytes;
      flipped[i] ^= static_cast<std::uint8_t>(1U << (i % 8));
      put(name, flipped);
      ASSERT_THAT(reason(), HasSubstr(name)) << i;
    }
    put(name, bytes);
    ASSERT_TRUE(is_sound());
  }
}

TEST_F(DamagedCheckpointTest, EveryTruncationIsFound) {
  for (const auto& [name, bytes] : files_) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      put(name, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
      ASSERT_THAT(reason(), HasSubstr(name)) << size;
    }
    data::Bytes longer = bytes;
    longer.push_back('\n');
    put(name, longer);
    ASSERT_THAT(reason(), HasSubstr(name));
    put(name, bytes);
  }
}

TEST_F(DamagedCheckpointTest, EveryMissingFileIsFound) {
  for (const auto& [name, bytes] : files_) {
    std::filesystem::remove(folder_.path(newest_ + "/" + name));
    EXPECT_THAT(reason(), AllOf(HasSubstr(name), HasSubstr("No such file")));
    put(name, bytes);
  }
  EXPECT_TRUE(is_sound());
  std::filesystem::remove(folder_.path(newest_ + "/model.safetensors"));
  std::filesystem::create_directory(folder_.path(newest_ + "/model.safetensors"));
  EXPECT_THAT(reason(), HasSubstr("not a regular file"));
}

// A file of the right size with wrong contents, and a folder with parts of two checkpoints.
TEST_F(DamagedCheckpointTest, MixedUpFilesAreFound) {
  put("model.safetensors", TempFolder::read(folder_.path("000001-step-10/model.safetensors")));
  EXPECT_THAT(reason(), HasSubstr("its checksum is not the one in the manifest"));
  put("model.safetensors", files_["optimizer_2.safetensors"]);
  EXPECT_THAT(reason(), HasSubstr("damaged"));
}

// Files with correct sizes and checksums, because somebody has written the manifest anew.
TEST_F(DamagedCheckpointTest, FilesThatHoldOtherTensorsThanListedAreFound) {
  const std::string path = folder_.path(newest_);
  const Manifest manifest = read_manifest(path);
  const auto reason_with = [&](const std::vector<std::string>& names) {
    Manifest other = manifest;
    other.files[0].names = names;
    const std::string text = format_manifest(other);
    put("manifest.json", {text.begin(), text.end()});
    return reason();
  };
  EXPECT_THAT(reason_with({"z.weight", "a.weight"}),
              HasSubstr("it has the tensor 'a.steps', which the manifest does not list"));
  EXPECT_THAT(reason_with({"z.weight", "a.weight", "a.steps", "b"}),
              HasSubstr("it has no tensor 'b', which the manifest lists"));
}

// Listing a folder reads no more than sizes.
TEST_F(DamagedCheckpointTest, AFileThatIsTooLongIsSeenInTheList) {
  data::Bytes longer = files_["model.safetensors"];
  longer.push_back(0);
  put("model.safetensors", longer);
  EXPECT_THAT(
      list_checkpoints(folder_.path()).front().problem,
      HasSubstr(concat("it has ", longer.size(), " bytes, the manifest says ", longer.size() - 1)));
}

TEST_F(DamagedCheckpointTest, WithoutASoundOneEachIsExplained) {
  put("manifest.json", {'{'});
  folder_.write("000001-step-10/model.safetensors", {});
  EXPECT_THAT(message_of<FileError>([&] { read_latest_checkpoint(folder_.path()); }),
              AllOf(StartsWith("[checkpoint] " + folder_.path() +
                               ": none of its 2 checkpoints is intact. Restore one of them, or "
                               "start again in another folder: [checkpoint] "),
                    HasSubstr(newest_ + "/manifest.json: it does not begin with its checksum"),
                    HasSubstr("; [checkpoint] " + folder_.path("000001-step-10") +
                              "/model.safetensors: damaged: it has 0 bytes")));
}

// A damaged checkpoint does not count: it must not displace a sound one.
TEST_F(DamagedCheckpointTest, DoesNotReplaceASoundOne) {
  std::filesystem::remove(folder_.path(newest_ + "/model.safetensors"));
  write_checkpoint(folder_.path(), sample_checkpoint(30), {.keep = 2});
  EXPECT_THAT(names_in(folder_.path()),
              ElementsAre("000001-step-10", "000002-step-20", "000003-step-30"));
  write_checkpoint(folder_.path(), sample_checkpoint(40), {.keep = 2});
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("000003-step-30", "000004-step-40"));
}

// Without a manifest nobody knows what belongs to a checkpoint.
TEST_F(DamagedCheckpointTest, WithoutAManifestNothingIsRemoved) {
  put("manifest.json", {'{'});
  CaughtLog log;
  write_checkpoint(folder_.path(), sample_checkpoint(30), {.keep = 1});
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("000002-step-20", "000003-step-30"));
  EXPECT_EQ(TempFolder::read(folder_.path(newest_ + "/model.safetensors")),
            files_["model.safetensors"]);
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_THAT(log.lines[0], HasSubstr("000002-step-20 stays: [checkpoint]"));
  // Reported only once.
  write_checkpoint(folder_.path(), sample_checkpoint(40), {.keep = 1});
  EXPECT_EQ(log.lines.size(), 1U);
}

TEST_F(DamagedCheckpointTest, TheBestFallsBackToTheNextBest) {
  const TempFolder folder;
  for (const double score : {0.1, 0.3, 0.2, 0.4}) {
    write_checkpoint(folder.path(), {.score = score, .groups = {{"model", {}}}}, {.keep = 0});
  }
  data::Bytes bytes = TempFolder::read(folder.path("000004-step-0/model.safetensors"));
  bytes[9] ^= 1;
  folder.write("000004-step-0/model.safetensors", bytes);
  folder.write("000003-step-0/manifest.json", {});
  CaughtLog log;
  const FoundCheckpoint found = read_best_checkpoint(folder.path(), KeepBest::kHighest);
  EXPECT_EQ(found.checkpoint.score, 0.3);
  ASSERT_EQ(found.damaged.size(), 2U);
  EXPECT_EQ(found.damaged[0].path, folder.path("000003-step-0"));
  EXPECT_EQ(found.damaged[1].path, folder.path("000004-step-0"));
}

// Manifests -----------------------------------------------------------------------------------

constexpr std::string_view kStart = "{\n  \"checksum\": \"crc32c:";

// Text that begins with its correct checksum; `rest` follows the comma.
std::string sealed(std::string_view rest) {
  std::string text = std::string(kStart) + "00000000\"" + std::string(rest);
  char digits[9];
  std::snprintf(digits, sizeof(digits), "%08x", crc32c(text));
  return text.replace(kStart.size(), 8, digits);
}

constexpr std::string_view kFront = R"(,"format":"mezzo checkpoint","version":1)";

// A manifest with other fields after the first ones.
std::string with(std::string_view fields) {
  return sealed(std::string(kFront) + "," + std::string(fields) + "}");
}

// A manifest with a list of files.
std::string with_files(std::string_view files) {
  return with(R"("step":1,"random":{},"values":{},"files":[)" + std::string(files) + "]");
}

std::string with_file(std::string_view fields) {
  return with_files("{" + std::string(fields) + "}");
}

std::string with_values(std::string_view values) {
  return with(R"("step":1,"random":{},"files":[],"values":)" + std::string(values));
}

std::string with_random(std::string_view random) {
  return with(R"("step":1,"values":{},"files":[],"random":)" + std::string(random));
}

struct MalformedManifest {
  std::string text;
  std::string message;
};

std::vector<MalformedManifest> malformed_manifests() {
  return {
      {"", "does not begin with its checksum, it begins with ''"},
      {"\xff", "it begins with other bytes"},
      {std::string(kStart), "does not begin with its checksum"},
      {std::string(kStart) + "0000000", "does not begin with its checksum"},
      {std::string(kStart) + "0000000G\"}", "does not begin with its checksum"},
      {std::string(kStart) + "ABCDEF00\"}", "does not begin with its checksum"},
      {std::string(kStart) + "00000000\"}", "damaged: its checksum is "},
      {sealed("}x"), "not JSON, up to its byte"},
      {sealed(""), "not JSON"},
      {sealed({",\0}", 3}), "not JSON: its byte"},
      {sealed(R"(,"a":1e999})"), "a number that is not finite"},
      {sealed(",\"a\":" + std::string(100'000, '[')), "too deeply nested"},
      {sealed(R"(,"a":[[[[[[{}]]]]]]})"), "too deeply nested"},
      {sealed(R"(,"version":1,"version":1})"), "'version' occurs twice"},
      {sealed(R"(,"\u0061":1,"a":1})"), "'a' occurs twice"},
      {sealed("}"), "the manifest: has no 'format'"},
      {sealed(R"(,"format":1})"), "'format' is not text"},
      {sealed(R"(,"format":"x"})"), "its format is 'x', expected 'mezzo checkpoint'"},
      {sealed(R"(,"format":"mezzo checkpoint","version":2})"),
       "written in version 2 of the format, this program reads version 1"},
      {sealed(R"(,"format":"mezzo checkpoint","version":0})"),
       "written in version 0 of the format, this program reads version 1"},
      {sealed(R"(,"format":"mezzo checkpoint","version":-1})"), "not an integer of at least 0"},
      {with(R"("extra":1)"), "has the unknown field 'extra'"},
      {with(R"("files":[])"), "has no 'step'"},
      {with(R"("step":-1)"), "'step' is not an integer"},
      {with(R"("step":1.0)"), "'step' is not an integer"},
      {with(R"("step":9223372036854775808)"), "'step' is too large"},
      {with(R"("step":1,"score":1)"), "'score' is not a number"},
      {with(R"("step":1,"score":{"number":"x"})"), "'score' is not a number"},
      {with(R"("step":1)"), "has no 'files'"},
      {with(R"("step":1,"files":{})"), "'files' is not a list"},
      {with(R"("step":1,"files":[])"), "has no 'random'"},
      {with(R"("step":1,"files":[],"random":{})"), "has no 'values'"},
  };
}

std::vector<MalformedManifest> malformed_parts() {
  const std::string file = R"("bytes":1,"crc32c":"00000000","tensors":[],"file":)";
  return {
      {with_files("1"), "an entry of 'files': is not an object"},
      {with_file(""), "has no 'file'"},
      {with_file(R"("file":"a.safetensors","x":1)"), "unknown field 'x'"},
      {with_file(file + R"("../a.safetensors")"), "is not a file name that mezzo uses"},
      {with_file(file + R"("a.b.safetensors")"), "is not a file name that mezzo uses"},
      {with_file(file + R"(".safetensors")"), "is not a file name that mezzo uses"},
      {with_file(file + R"("a")"), "is not a file name that mezzo uses"},
      {with_file(file + "7"), "'file' is not text"},
      {with_files("{" + file + R"("a.safetensors"},{)" + file + R"("a.safetensors"})"),
       "it lists 'a.safetensors' twice"},
      {with_file(R"("file":"a.safetensors","bytes":-1)"), "'bytes' is not an integer"},
      {with_file(R"("file":"a.safetensors","bytes":1,"crc32c":"0")"), "eight hexadecimal digits"},
      {with_file(R"("file":"a.safetensors","bytes":1,"crc32c":"00000000","tensors":1)"),
       "'tensors' is not a list"},
      {with_file(R"("file":"a.safetensors","bytes":1,"crc32c":"00000000","tensors":[1])"),
       "'tensors' is not a list of names"},
      {with_random("[]"), "'random': is not an object"},
      {with_random(R"({"a":1})"), "the random stream 'a': is not an object"},
      {with_random(R"({"a":{"seed":1}})"), "the random stream 'a': has no 'offset'"},
      {with_random(R"({"a":{"seed":1,"offset":-1}})"), "'offset' is not an integer"},
      {with_random(R"({"a":{"seed":1,"offset":1,"x":1}})"), "unknown field 'x'"},
      {with_values("1"), "'values': is not an object"},
      {with_values(R"({"a":1})"), "the section 'a': is not an object"},
      {with_values(R"({"a":{"b":null}})"), "'b' is not a value that mezzo writes"},
      {with_values(R"({"a":{"b":[1]}})"), "'b' is not a value"},
      {with_values(R"({"a":{"b":{"number":"1"}}})"), "'b' is not a value"},
      {with_values(R"({"a":{"b":{"number":"inf","x":1}}})"), "'b' is not a value"},
      {with_values(R"({"a":{"b":9223372036854775808}})"), "'b' is not a value"},
  };
}

TEST(CheckpointManifest, EveryMalformedOneSaysWhatIsWrong) {
  std::vector<MalformedManifest> manifests = malformed_manifests();
  for (const MalformedManifest& malformed : malformed_parts()) manifests.push_back(malformed);
  for (const auto& [text, message] : manifests) {
    SCOPED_TRACE(text.substr(0, 200));
    const std::string error =
        message_of<FileError>([&, &t = text] { parse_manifest("m.json", t); });
    EXPECT_THAT(error, AllOf(StartsWith("[checkpoint] m.json: "), HasSubstr(message)));
    EXPECT_LT(error.size(), 300U);
  }
}

// The tables above must fail for the stated reason, not because of how they are constructed.
TEST(CheckpointManifest, TheSmallestOneIsRead) {
  const Manifest manifest = parse_manifest(
      "m.json",
      with_file(R"("file":"a.safetensors","bytes":1,"crc32c":"0000abcd","tensors":["x"])"));
  EXPECT_EQ(manifest.checkpoint.step, 1);
  ASSERT_EQ(manifest.files.size(), 1U);
  EXPECT_EQ(manifest.files[0].crc, 0xabcdU);
  EXPECT_THAT(manifest.files[0].names, ElementsAre("x"));
  EXPECT_THAT(parse_manifest("m.json", with_values("{}")).checkpoint.values, IsEmpty());
  EXPECT_THAT(parse_manifest("m.json", with_random("{}")).checkpoint.random, IsEmpty());
}

// The example in docs/formats.md. The checksum was computed by another program.
TEST(CheckpointManifest, GoldenText) {
  Manifest manifest;
  manifest.checkpoint.step = 450;
  manifest.checkpoint.score = 0.875;
  manifest.checkpoint.random["default"] = {1, 96};
  manifest.checkpoint.values["loader"] = {{"epoch", std::int64_t{3}}, {"best", -HUGE_VAL}};
  manifest.files.push_back({"model", 252, 0x17d24882, {"fc.weight", "fc.bias"}});
  EXPECT_EQ(format_manifest(manifest), R"({
  "checksum": "crc32c:5eadac3f",
  "format": "mezzo checkpoint",
  "version": 1,
  "step": 450,
  "score": 0.875,
  "files": [
    {
      "file": "model.safetensors",
      "bytes": 252,
      "crc32c": "17d24882",
      "tensors": [
        "fc.weight",
        "fc.bias"
      ]
    }
  ],
  "random": {
    "default": {
      "seed": 1,
      "offset": 96
    }
  },
  "values": {
    "loader": {
      "best": {
        "number": "-inf"
      },
      "epoch": 3
    }
  }
}
)");
}

}  // namespace
}  // namespace mezzo::io
