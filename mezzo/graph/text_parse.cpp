#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/graph/line_scanner.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/dispatcher/attrs_text.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo::graph {
namespace {

DType read_dtype(LineScanner& line, std::string_view stops) {
  LineScanner before = line;
  DType dtype{};
  if (!parse_text(line.word(stops, "a dtype"), dtype)) before.expected("a dtype");
  return dtype;
}

// Reads `[4, 3]`: sizes or strides.
Shape read_sizes(LineScanner& line) {
  constexpr const char* kWhat = "sizes such as [2, 3], at most 6 and none negative";
  LineScanner before = line;
  Shape sizes;
  bool fits = parse_text(line.through(']', kWhat), sizes);
  for (const std::int64_t size : sizes) fits = fits && size >= 0;
  if (!fits) before.expected(kWhat);
  return sizes;
}

// Whether 62 bits hold the number of bytes from the first element to the last.
bool is_in_reach(const ValueSpec& spec) {
  double bytes = static_cast<double>(size_of(spec.dtype));
  for (std::size_t i = 0; i < spec.shape.rank(); ++i) {
    bytes += static_cast<double>(spec.shape[i]) * static_cast<double>(spec.strides[i]) *
             static_cast<double>(size_of(spec.dtype));
  }
  return bytes < 0x1p62;
}

ValueSpec read_spec(LineScanner& line) {
  const DType dtype = read_dtype(line, "[ ,)");
  const LineScanner before = line;
  const Shape shape = read_sizes(line);
  if (!is_countable(shape, size_of(dtype))) before.expected("sizes whose bytes can be counted");
  if (line.take(" channels_last")) {
    if (shape.rank() != 4) before.expected("4 sizes, because the format is channels_last");
    return ValueSpec::dense(shape, dtype, Format::kChannelsLast);
  }
  if (!line.take(" strides=")) return ValueSpec::dense(shape, dtype);
  const LineScanner before_strides = line;
  const Strides strides = read_sizes(line);
  if (strides.rank() != shape.rank()) before_strides.expected("one stride per size");
  const ValueSpec spec{shape, dtype, strides};
  if (!is_in_reach(spec)) before_strides.expected("strides whose bytes can be counted");
  return spec;
}

Device read_device(LineScanner& line) {
  const LineScanner before = line;
  const std::optional<Device> device = parse_device(line.word(" ", "a device"));
  if (!device.has_value()) before.expected("a device: cpu, cuda or cuda:1");
  return *device;
}

// A definition such as `x: f32[2]`.
struct Definition {
  std::string name;
  ValueSpec spec;
};

constexpr const char* kEndOfName = " ,:=()[]{}";

Definition read_definition(LineScanner& line) {
  std::string name(line.word(kEndOfName, "a value"));
  line.need(": ");
  return {std::move(name), read_spec(line)};
}

class ProgramParser {
 public:
  void read_line(LineScanner line);
  bool is_complete() const { return state_ == State::kEnd; }
  Program take() { return std::move(program_); }

 private:
  enum class State : std::uint8_t { kHeader, kNodes, kReturned, kEnd };

  void read_header(LineScanner& line);
  void read_statement(LineScanner& line);
  void read_return(LineScanner& line);
  Node read_node(LineScanner& line);
  void read_call(LineScanner& line, Node& node);
  void read_details(LineScanner& line, Node& node);
  std::shared_ptr<const amp::Policy> read_policy(LineScanner& line);

  std::vector<ValueId> read_values(LineScanner& line);
  // Reads the name of a defined value; returns kNoValue for `_`.
  ValueId read_value(LineScanner& line);
  ValueId define(const LineScanner& line, const Definition& definition, ValueKind kind);

  State state_ = State::kHeader;
  Program program_;
  std::map<std::string, ValueId, std::less<>> values_;
  std::map<std::string, std::shared_ptr<const amp::Policy>> policies_;  // one per policy text
};

void ProgramParser::read_line(LineScanner line) {
  while (line.take(" ")) continue;
  if (line.at_end()) return;
  switch (state_) {
    case State::kHeader: read_header(line); break;
    case State::kNodes: read_statement(line); break;
    case State::kReturned:
      line.need("}");
      state_ = State::kEnd;
      break;
    case State::kEnd: line.expected("nothing after the closing brace");
  }
  if (!line.at_end()) line.expected("the end of the line");
}

void ProgramParser::read_header(LineScanner& line) {
  line.need("program(");
  while (!line.take(")")) {
    if (!program_.inputs.empty()) line.need(", ");
    define(line, read_definition(line), ValueKind::kInput);
  }
  if (line.take(" on ")) program_.device = read_device(line);
  line.need(" {");
  state_ = State::kNodes;
}

void ProgramParser::read_statement(LineScanner& line) {
  if (line.take("state ")) {
    define(line, read_definition(line), ValueKind::kState);
  } else if (line.take("return")) {
    read_return(line);
  } else {
    program_.nodes.push_back(read_node(line));
  }
}

void ProgramParser::read_return(LineScanner& line) {
  state_ = State::kReturned;
  if (line.at_end()) return;
  line.need(" ");
  do {
    program_.outputs.push_back(read_value(line));
  } while (line.take(", "));
}

Node ProgramParser::read_node(LineScanner& line) {
  Node node;
  if (line.take("host ")) {
    node.host = line.word("(", "the name of host work");
    node.inputs = read_values(line);
    read_details(line, node);
    return node;
  }
  std::vector<Definition> results;
  do {
    results.push_back(read_definition(line));
  } while (line.take(", "));
  line.need(" = ");
  read_call(line, node);
  // Results are defined last, because no call reads its own results.
  for (const Definition& result : results) {
    node.outputs.push_back(define(line, result, ValueKind::kResult));
  }
  return node;
}

void ProgramParser::read_call(LineScanner& line, Node& node) {
  const std::string_view name = line.word("(", "an operation");
  node.op = find_op(name);
  if (node.op == nullptr) {
    line.stop(concat("there is no operation \"", name, "\". `mezzo ops` lists them"));
  }
  node.inputs = read_values(line);
  read_details(line, node);
}

void ProgramParser::read_details(LineScanner& line, Node& node) {
  std::string_view attrs;
  if (line.take(" {")) {
    attrs = line.through('}', "attributes and a closing brace");
    attrs.remove_suffix(1);
  }
  try {
    const Attrs like = node.is_host() ? Attrs() : node.op->samples().at(0).attrs;
    node.attrs = parse_attrs(like, attrs, node.is_host() ? node.host : node.op->name);
  } catch (const ArgumentError& error) {
    line.stop(error.what());
  }
  if (line.take(" over")) node.over = read_values(line);
  if (line.take(" @")) node.path = line.word(" ", "a module's path");
  if (line.take(" [")) node.policy = read_policy(line);
  if (line.take(" in ")) node.paint = read_dtype(line, " ");
  if (line.take(" because ")) node.reason = line.quoted();
  if (!line.take(" #")) return;
  node.phase = line.take("backward") ? Phase::kBackward : Phase::kUpdate;
  if (node.phase == Phase::kUpdate && !line.take("update")) line.expected("backward or update");
}

std::shared_ptr<const amp::Policy> ProgramParser::read_policy(LineScanner& line) {
  LineScanner inside = line;
  std::shared_ptr<const amp::Policy>& known =
      policies_[std::string(line.through(']', "a policy such as [O2/bf16]"))];
  if (known != nullptr) return known;
  amp::Policy policy;
  const LineScanner before = inside;
  const std::optional<amp::Level> level = amp::parse_level(inside.word("/]", "a level"));
  if (!level.has_value()) before.expected("a level: O0, O1, O2, O3 or auto");
  policy.level = *level;
  inside.need("/");
  policy.lower = read_dtype(inside, " ]");
  if (inside.take(" keep_batchnorm_fp32=")) {
    policy.keep_batchnorm_fp32 = inside.take("true");
    if (!*policy.keep_batchnorm_fp32) inside.need("false");
  }
  if (inside.take(" rules")) {
    inside.stop(
        "the text does not contain the user's rules. Only policies without such rules can be read");
  }
  inside.need("]");
  known = std::make_shared<const amp::Policy>(std::move(policy));
  return known;
}

std::vector<ValueId> ProgramParser::read_values(LineScanner& line) {
  std::vector<ValueId> values;
  line.need("(");
  while (!line.take(")")) {
    if (!values.empty()) line.need(", ");
    values.push_back(read_value(line));
  }
  return values;
}

ValueId ProgramParser::read_value(LineScanner& line) {
  const std::string_view name = line.word(kEndOfName, "a value");
  if (name == "_") return kNoValue;
  const auto found = values_.find(name);
  if (found == values_.end()) {
    line.stop(concat(name, " is used before it is defined. Define it in an earlier line"));
  }
  return found->second;
}

ValueId ProgramParser::define(const LineScanner& line, const Definition& definition,
                              ValueKind kind) {
  const auto& [name, spec] = definition;
  const auto next = static_cast<ValueId>(program_.values.size());
  if (!values_.emplace(name, next).second) {
    line.stop(concat(name, " is defined twice. Rename one of the two"));
  }
  const std::string kept = name.starts_with('%') ? "" : name;
  program_.values.push_back({kind, spec, kept, {}});
  if (kind == ValueKind::kInput) program_.inputs.push_back(next);
  return next;
}

}  // namespace

Program parse_program(std::string_view text) {
  ProgramParser parser;
  std::size_t number = 1;
  for (; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parser.read_line(LineScanner(text.substr(0, end), number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!parser.is_complete()) LineScanner("", number).expected("a return line and a closing brace");
  return parser.take();
}

}  // namespace mezzo::graph
