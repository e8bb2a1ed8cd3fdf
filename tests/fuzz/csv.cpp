// Fuzzes tables from CSV text. The first byte chooses the options.
#include "mezzo/data/csv.h"

#include <algorithm>
#include <cmath>

#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {
namespace {

data::CsvOptions options_of(std::uint8_t choice) {
  data::CsvOptions options;
  options.header = (choice & 1U) != 0;
  if ((choice & 2U) != 0) options.label = -1;
  if ((choice & 4U) != 0) options.labels = data::CsvLabels::kNumbers;
  if ((choice & 8U) != 0) options.missing = 0.0F;
  if ((choice & 16U) != 0) options.delimiter = ';';
  return options;
}

// Requires that all named classes exist, each in its place.
void check_classes(const data::CsvTable& table) {
  const auto count = static_cast<std::int64_t>(table.class_names.size());
  std::vector<bool> found(table.class_names.size());
  for (const std::int64_t label : table.labels.to_vector<std::int64_t>()) {
    require(label >= 0 && (count == 0 || label < count), "labels are classes");
    if (count > 0) found[static_cast<std::size_t>(label)] = true;
  }
  require(std::ranges::all_of(found, [](bool is_there) { return is_there; }), "classes occur");
  require(std::ranges::is_sorted(table.class_names), "classes are sorted by name");
}

}  // namespace

void read(Input input) {
  const std::uint8_t choice = input.empty() ? 0 : input[0];
  const std::string_view text = text_of(input.subspan(input.empty() ? 0 : 1));
  const data::CsvOptions options = options_of(choice);
  const data::CsvTable table = data::parse_csv(text, options);
  require(table.features.numel() > 0, "there are features");
  for (const float value : table.features.to_vector<float>()) {
    require(std::isfinite(value), "features are finite");
  }
  require(table.labels.defined() == options.label.has_value(), "labels are there if named");
  if (!table.labels.defined()) return;
  require(table.labels.size(0) == table.features.size(0), "every row has a label");
  if (table.labels.dtype() == DType::kI64) check_classes(table);
}

std::vector<Bytes> seeds() {
  return {bytes_of(std::string_view("\x00"
                                    "1,2\n-3.5e2,+4\n",
                                    14)),
          bytes_of("\x01"
                   "a,b\r\n1,2\r\n\r\n3,4"),
          bytes_of("\x03\xEF\xBB\xBFlength,\"width, in \"\"\",class\n1,2,x\n3,4,\"y\nz\"\n"),
          bytes_of("\x03"
                   "a,c\n1,0\n2,12\n"),
          bytes_of("\x0f"
                   "a,b,c\n,NA,1\n1e-50,?,2\n"),
          bytes_of("\x1b"
                   "a;b;c\n1;2;x\n;3;y\n")};
}

}  // namespace mezzo::fuzz
