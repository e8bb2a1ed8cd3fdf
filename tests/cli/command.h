// Shared code of the tests of the `mezzo` command: runs it in a temporary folder.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace mezzo::cli_tests {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Outcome {
  int status = -1;
  std::string output;
  std::string errors;
};

// Before a command line: as on a CPU without fast bf16.
#if defined(__aarch64__)
inline constexpr const char* kWithoutFastBf16 = "env MEZZO_MAX_ISA=neon ";
#else
inline constexpr const char* kWithoutFastBf16 = "env MEZZO_MAX_ISA=avx2 ";
#endif

class Command : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              (std::string("mezzo_cli_") + info->name() + "_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome run(const std::string& arguments) const {
    return run_line(std::string(MEZZO_COMMAND) + " " + arguments);
  }

  Outcome run_line(const std::string& line) const {
    const std::string errors = (folder_ / "stderr").string();
    Outcome outcome;
    FILE* pipe = popen((line + " 2>" + errors).c_str(), "r");
    if (pipe == nullptr) return outcome;
    std::array<char, 4096> buffer{};
    while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.output += buffer.data();
    outcome.status = WEXITSTATUS(pclose(pipe));
    std::ifstream file(errors);
    for (std::string text; std::getline(file, text);) {
      if (!is_about_this_cpu(text)) outcome.errors += text + "\n";
    }
    return outcome;
  }

  // True for the warnings that 16 bits are not fast, which for bf16 depend on the machine.
  static bool is_about_this_cpu(const std::string& line) {
    return line.starts_with("mezzo warning: this CPU has no fast bf16 dot product") ||
           line.starts_with("mezzo warning: f16 is computed in f32 on CPUs");
  }

  std::vector<Json> read_events(const std::string& name) const {
    std::vector<Json> events;
    std::ifstream file(folder_ / name);
    for (std::string line; std::getline(file, line);) events.push_back(Json::parse(line));
    return events;
  }

  std::string read_text(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

// The events of one kind in a log, without times.
inline std::vector<Json> events_of(const std::vector<Json>& events, const std::string& kind) {
  std::vector<Json> found;
  for (Json event : events) {
    if (event["event"] != kind) continue;
    for (const char* time : {"ms", "wait_ms", "seconds"}) event.erase(time);
    found.push_back(std::move(event));
  }
  return found;
}

inline std::vector<Json> steps_of(const std::vector<Json>& events) {
  return events_of(events, "step");
}

// Writes CIFAR-10 files of that many random images each.
inline void write_cifar10(const fs::path& folder, int images = 4) {
  std::uint32_t state = 1;
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    std::ofstream file(folder / (std::string(name) + ".bin"), std::ios::binary);
    for (int i = 0; i < images * 3073; ++i) {
      state = state * 1664525U + 1013904223U;
      file.put(static_cast<char>(i % 3073 == 0 ? i / 3073 : state >> 24));
    }
  }
}

}  // namespace mezzo::cli_tests
