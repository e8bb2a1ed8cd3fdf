// Tests that a step's numbers are written into a folder and read back, and that damaged folders are
// refused.
#include "mezzo/numbers/dump.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/io/safetensors.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"
#include "tests/unit/numbers/compared_models.h"

namespace mezzo::numbers {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Dump : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  void dump(const std::string& name, const StepSettings& settings,
            StepDumper::DumpOptions options = {}) const {
    SubjectRun subject("lenet5", settings);
    const StepRun run = subject.run();
    options.title = "lenet5";
    StepDumper dumper(run.net, path(name), options);
    run.make(dumper);
    EXPECT_TRUE(dumper.is_done());
    EXPECT_GT(dumper.bytes(), 100'000);
  }

  std::string text_of_index(const std::string& name) const {
    std::ifstream file(path(name) + "/index.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_index(const std::string& name, const std::string& text) const {
    std::ofstream(path(name) + "/index.json") << text;
  }
  std::string refusal(const std::string& name) const {
    return message_of<FileError>([&] { static_cast<void>(read_dump(path(name))); });
  }

  data::TempFolder folder_;
};

TEST_F(Dump, ReadsBackWhatTheStepComputed) {
  for (const bool is_captured : {false, true}) {
    const StepSettings settings{.policy = kO2Bf16, .is_captured = is_captured, .micro_batches = 2};
    const std::string name = is_captured ? "captured" : "eager";
    dump(name, settings, {.file_bytes = 100'000});
    const StepRecord record = read_dump(path(name));
    SubjectRun again("lenet5", settings);
    const Comparison found = compare_run(record, again.run());
    EXPECT_TRUE(found.is_equal()) << all_lines(found);
    EXPECT_EQ(found.a.loss, found.b.loss);
    EXPECT_EQ(record.facts.title, "lenet5");
    EXPECT_EQ(record.gradients.size(), 10);
    EXPECT_GT(std::distance(fs::directory_iterator(path(name)), {}), 3);  // several files
  }
}

TEST_F(Dump, TwoDumpsAreCompared) {
  dump("a", {.policy = kAllF32});
  dump("b", {.policy = kO2Bf16});
  const Comparison same = compare_records(read_dump(path("a")), read_dump(path("a")));
  EXPECT_TRUE(same.is_equal());
  const Comparison found = compare_records(read_dump(path("a")), read_dump(path("b")));
  EXPECT_TRUE(found.first_difference.has_value());
  EXPECT_FALSE(found.first_jump.has_value()) << all_lines(found);
  EXPECT_GT(found.measured, 10);
}

TEST_F(Dump, IsPlainSafetensorsWithAnIndex) {
  dump("a", {.policy = kAllF32});
  const io::SafetensorsFile file = io::read_safetensors(path("a/tensors-0001.safetensors"));
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(file.tensors, [&](const NamedTensor& t) { return t.name == name; });
  };
  EXPECT_TRUE(has("000000.0"));
  EXPECT_TRUE(has("source.0"));
  EXPECT_TRUE(has("gradient.0"));
  const std::string index = text_of_index("a");
  EXPECT_THAT(index, HasSubstr(R"("format": "mezzo step dump")"));
  EXPECT_THAT(index, HasSubstr(R"("path":"conv1","op":"conv2d","number":0)"));
  EXPECT_THAT(index, HasSubstr(R"("parameter":"conv1.weight")"));
  EXPECT_THAT(index, HasSubstr(R"("batch":"input 0")"));
  EXPECT_THAT(index, HasSubstr(R"("gradient_of":"conv2d")"));
}

TEST_F(Dump, OnlyTheNamedStepIsWritten) {
  Subject subject("lenet5");
  optim::Sgd optimizer(subject.net->parameters(), {.lr = 0.1});
  StepDumper dumper(*subject.net, path("a"), {.step = 3});
  amp::TrainStep step(*subject.net, subject.loss, optimizer, amp::GradScaler({}, false),
                      {.observers = {&dumper}});
  step(subject.batch);
  step(subject.batch);
  EXPECT_FALSE(is_dump(path("a")));
  const double loss = step(subject.batch).loss;
  step(subject.batch);
  EXPECT_EQ(read_dump(path("a")).facts.step, 3);
  EXPECT_EQ(read_dump(path("a")).facts.loss, loss);
}

TEST_F(Dump, AFolderThatIsNotEmptyIsRefused) {
  fs::create_directories(path("full"));
  std::ofstream(path("full/file")) << "x";
  std::ofstream(path("file")) << "x";
  fs::create_directories(path("empty"));
  EXPECT_THAT(message_of<ArgumentError>([&] { check_dump_folder(path("full"), "--dump-dir"); }),
              HasSubstr("full: is not empty. Name a new folder"));
  EXPECT_THAT(message_of<ArgumentError>([&] { check_dump_folder(path("file"), "--dump-dir"); }),
              HasSubstr("exists and is not a folder"));
  check_dump_folder(path("empty"));
  check_dump_folder(path("new"));
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(Dump, DamagedFoldersAreRefusedInOneLine) {
  EXPECT_THAT(refusal("none"), HasSubstr("index.json"));
  dump("a", {.policy = kAllF32});
  const std::string index = text_of_index("a");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = index;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_index("a", text.replace(at, from.size(), to));
    const std::string message = refusal("a");
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  };
  write_index("a", index.substr(0, index.size() / 2));
  EXPECT_THAT(refusal("a"), HasSubstr("is not JSON"));
  write_index("a", "{}");
  EXPECT_THAT(refusal("a"), HasSubstr("is not the index of a dumped step"));
  EXPECT_THAT(replaced("\"version\": 1", "\"version\": 9"), HasSubstr("has version 9"));
  EXPECT_THAT(replaced("\"tensor\":\"000000.0\"", "\"tensor\":\"000000.9\""),
              HasSubstr("the files have no '000000.9'"));
  EXPECT_THAT(replaced("\"file\":0", "\"file\":7"), HasSubstr("'file' is 7, of only 1"));
  EXPECT_THAT(replaced("\"call\":0", "\"call\":9999"), HasSubstr("'call' is 9999"));
  EXPECT_THAT(replaced("tensors-0001.safetensors", "../x"), HasSubstr("is not the name of a file"));
  EXPECT_THAT(replaced("\"dtype\":\"f32\"", "\"dtype\":\"f7\""), HasSubstr("unknown dtype 'f7'"));
  EXPECT_THAT(replaced("\"scale\":1.0", "\"scale\":0"), HasSubstr("'scale' is not positive"));
  write_index("a", index);
  fs::resize_file(path("a/tensors-0001.safetensors"), 1000);
  EXPECT_THAT(refusal("a"), HasSubstr("tensors-0001.safetensors"));
  fs::remove(path("a/tensors-0001.safetensors"));
  EXPECT_THAT(refusal("a"), HasSubstr("tensors-0001.safetensors"));
}

}  // namespace
}  // namespace mezzo::numbers
