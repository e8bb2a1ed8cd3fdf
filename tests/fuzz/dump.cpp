// Fuzzes the index of a dumped step.
#include "mezzo/numbers/dump_index.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/samples.h"

namespace mezzo::fuzz {

void read(Input input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const numbers::DumpIndex index = numbers::parse_dump_index("index", text);
  // What was read can be written, and reads back the same.
  const std::string written = numbers::to_json(index);
  require(numbers::to_json(numbers::parse_dump_index("index", written)) == written,
          "the index comes back");
}

std::vector<Bytes> seeds() {
  const numbers::DumpedTensor tensor{.file = 0, .name = "000000.0", .shape = {2, 3}};
  numbers::DumpIndex index{.made_by = "mezzo", .files = {"tensors-0001.safetensors"}};
  index.sources.push_back({numbers::Source::kBatch, "input 0", tensor});
  index.calls.push_back(
      {.inputs = {{DType::kF32, {.source = numbers::Source::kBatch, .name = "input 0"}}},
       .results = {
           {.id = {.call = {.path = "fc", .op = "linear"}}, .tensor = tensor, .terms = 8}}});
  index.calls.push_back(
      {.inputs = {{DType::kBf16, {.source = numbers::Source::kCall}}},
       .results = {{.id = {.call = {.op = "relu", .gradient_of = "linear", .number = 2}},
                    .tensor = tensor,
                    .own = {true, 1e-3, 0.5, 2e-3}}}});
  index.gradients.push_back({"fc.weight", tensor});
  const auto bytes = [](const std::string& text) { return Bytes(text.begin(), text.end()); };
  return {bytes(numbers::to_json(index)), bytes(numbers::to_json({.made_by = "mezzo"}))};
}

}  // namespace mezzo::fuzz
