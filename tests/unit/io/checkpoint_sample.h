// A small checkpoint that has everything a checkpoint can have.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/log.h"
#include "mezzo/io/checkpoint.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::io {

// A tensor of arbitrary bits; bools are 0 and 1.
inline Tensor filled(const Shape& shape, DType dtype, std::int64_t seed) {
  const Tensor tensor = zeros(shape, dtype);
  auto* const raw = static_cast<unsigned char*>(tensor.mutable_raw_data());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    const auto value = static_cast<unsigned char>(static_cast<std::size_t>(seed) * 59 + 37 * i);
    raw[i] = dtype == DType::kBool ? value & 1U : value;
  }
  return tensor;
}

inline Checkpoint sample_checkpoint(std::int64_t step) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.groups.push_back({"model",
                               {{"z.weight", filled({2, 3}, DType::kF32, step)},
                                {"a.weight", filled({3}, DType::kBf16, step)},
                                {"a.steps", filled({}, DType::kI64, step)}}});
  checkpoint.groups.push_back({"optimizer_2",
                               {{"momentum.0", filled({2, 0}, DType::kF32, step)},
                                {"mask", filled({5}, DType::kBool, step)},
                                {"half", filled({2}, DType::kF16, step)}}});
  checkpoint.random["default"] = {~std::uint64_t{0}, static_cast<std::uint64_t>(step)};
  checkpoint.random["loader"] = {1, 2};
  CheckpointValues& values = checkpoint.values["values"];
  values["lowest"] = std::numeric_limits<std::int64_t>::min();
  values["highest"] = std::numeric_limits<std::int64_t>::max();
  values["third"] = 1.0 / 3;
  values["one"] = 1.0;
  values["tiny"] = 5e-324;
  values["minus_zero"] = -0.0;
  values["infinity"] = -std::numeric_limits<double>::infinity();
  values["yes"] = true;
  values["text"] = std::string("line\n\"\u00e4\"");
  checkpoint.values["counters"]["step"] = step;
  checkpoint.values["empty"];
  return checkpoint;
}

inline bool same_bits(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.tensor.dtype() == b.tensor.dtype() &&
         a.tensor.shape() == b.tensor.shape() &&
         (a.tensor.numel() == 0 ||
          std::memcmp(a.tensor.raw_data(), b.tensor.raw_data(), a.tensor.bytes()) == 0);
}

inline bool same_group(const CheckpointGroup& a, const CheckpointGroup& b) {
  return a.name == b.name && std::ranges::equal(a.tensors, b.tensors, same_bits);
}

// Compares everything but the score.
inline bool same_checkpoint(const Checkpoint& a, const Checkpoint& b) {
  return a.step == b.step && std::ranges::equal(a.groups, b.groups, same_group) &&
         a.random == b.random && a.values == b.values;
}

// The names in a folder, sorted.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// Captures log lines while it exists.
class CaughtLog {
 public:
  CaughtLog() {
    logging::set_sink([this](logging::Topic, std::string_view line) { lines.emplace_back(line); });
  }
  CaughtLog(const CaughtLog&) = delete;
  CaughtLog& operator=(const CaughtLog&) = delete;
  ~CaughtLog() { logging::set_sink({}); }

  std::vector<std::string> lines;
};

}  // namespace mezzo::io
