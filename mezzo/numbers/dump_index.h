// The index of a dumped step: what a folder of tensors means. See dump.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/numbers/step_record.h"

namespace mezzo::numbers {

inline constexpr const char* kDumpOp = "dump";  // in error messages
inline constexpr const char* kDumpIndexName = "index.json";

// Where a tensor is: in which of the files, and under which name.
struct DumpedTensor {
  std::size_t file = 0;
  std::string name{};
  DType dtype = DType::kF32;
  Shape shape{};
};

struct DumpedResult {
  ResultId id{};
  DumpedTensor tensor{};
  OwnError own{};
  double terms = 1;
};

struct DumpedCall {
  std::vector<RecordedInput> inputs{};
  std::vector<DumpedResult> results{};
};

struct DumpedSource {
  Source source = Source::kParameter;
  std::string name{};
  DumpedTensor tensor{};
};

struct DumpedGradient {
  std::string name{};
  DumpedTensor tensor{};
};

struct DumpIndex {
  std::string made_by{};  // `mezzo 0.1.0`
  RecordedStep facts{};
  std::vector<std::string> files{};
  std::vector<DumpedSource> sources{};
  std::vector<DumpedCall> calls{};
  std::vector<DumpedGradient> gradients{};
};

// As JSON, one call per line.
std::string to_json(const DumpIndex& index);

// Throws FileError that names `source` and says what is wrong. An index that was read refers only
// to files that it lists and to calls before the one that reads their results.
DumpIndex parse_dump_index(std::string_view source, std::string_view text);

}  // namespace mezzo::numbers
