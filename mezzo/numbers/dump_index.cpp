#include "mezzo/numbers/dump_index.h"

#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "mezzo/core/error.h"
#include "mezzo/io/utf8.h"

namespace mezzo::numbers {
namespace {

using IndexJson = nlohmann::ordered_json;

constexpr const char* kDumpFormat = "mezzo step dump";
constexpr std::int64_t kDumpVersion = 1;

// JSON has no infinities and no NaN.
IndexJson json_of_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

IndexJson json_of(const DumpedTensor& tensor) {
  IndexJson shape = IndexJson::array();
  for (const std::int64_t size : tensor.shape) shape.push_back(size);
  return {{"file", tensor.file},
          {"tensor", tensor.name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", std::move(shape)}};
}

const char* kind_of(Source source) { return source == Source::kBatch ? "batch" : "parameter"; }

IndexJson json_of(const RecordedInput& input) {
  IndexJson json{{"dtype", name_of(input.dtype)}};
  switch (input.origin.source) {
    case Source::kCall:
      json["call"] = input.origin.call;
      json["result"] = input.origin.output;
      break;
    case Source::kParameter:
    case Source::kBatch: json[kind_of(input.origin.source)] = input.origin.name; break;
    case Source::kOther: break;
  }
  return json;
}

IndexJson json_of(const DumpedResult& result) {
  const CallId& call = result.id.call;
  IndexJson json{{"path", call.path}, {"op", call.op}, {"number", call.number}};
  if (call.is_backward()) json["gradient_of"] = call.gradient_of;
  json["output"] = result.id.output;
  json.update(json_of(result.tensor));
  json["terms"] = json_of_number(result.terms);
  if (result.own.is_measured) {
    json["own_error"] = json_of_number(result.own.error);
    json["own_largest"] = json_of_number(result.own.largest);
    json["explained"] = json_of_number(result.own.explained);
  }
  return json;
}

IndexJson json_of(const DumpedCall& call) {
  IndexJson inputs = IndexJson::array();
  for (const RecordedInput& input : call.inputs) inputs.push_back(json_of(input));
  IndexJson results = IndexJson::array();
  for (const DumpedResult& result : call.results) results.push_back(json_of(result));
  return {{"inputs", std::move(inputs)}, {"results", std::move(results)}};
}

IndexJson json_of(const RecordedStep& facts) {
  return {{"title", facts.title},
          {"machine", facts.machine},
          {"threads", facts.threads},
          {"step", facts.step},
          {"scale", json_of_number(facts.scale)},
          {"loss", json_of_number(facts.loss)},
          {"skipped", facts.is_skipped}};
}

// A list with one entry per line.
template <class Entry, class Convert>
std::string lines_of(const std::vector<Entry>& entries, const Convert& convert) {
  std::string text = "[";
  const char* separator = "\n  ";
  for (const Entry& entry : entries) {
    text += separator;
    text += IndexJson(convert(entry)).dump(-1, ' ', false, IndexJson::error_handler_t::replace);
    separator = ",\n  ";
  }
  return text + "\n]";
}

// Reads the fields of an object; errors call it `where`.
class IndexFields {
 public:
  IndexFields(std::string_view source, std::string where, const IndexJson& json)
      : source_(source), where_(std::move(where)), json_(json) {
    if (!json.is_object()) wrong("is not an object");
  }

  bool has(const char* name) const { return json_.contains(name); }
  const IndexJson& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) wrong(concat("has no '", name, "'"));
    return *found;
  }
  const IndexJson& list(const char* name) const {
    if (!at(name).is_array()) wrong(concat("'", name, "' is not a list"));
    return at(name);
  }
  std::string text(const char* name) const {
    if (!at(name).is_string()) wrong(concat("'", name, "' is not text"));
    return at(name).get<std::string>();
  }
  std::int64_t count(const char* name) const {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    const IndexJson& json = at(name);
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > kMost) {
      wrong(concat("'", name, "' is not an integer of at least 0"));
    }
    return json.get<std::int64_t>();
  }
  // An index into a list of that size.
  std::size_t index(const char* name, std::size_t size) const {
    const auto value = static_cast<std::size_t>(count(name));
    if (value >= size) wrong(concat("'", name, "' is ", value, ", of only ", size));
    return value;
  }
  double number(const char* name) const {
    const IndexJson& json = at(name);
    if (json.is_number()) return json.get<double>();
    if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (json == "inf") return std::numeric_limits<double>::infinity();
    if (json == "-inf") return -std::numeric_limits<double>::infinity();
    wrong(concat("'", name, "' is not a number"));
  }
  bool flag(const char* name) const {
    if (!at(name).is_boolean()) wrong(concat("'", name, "' is neither true nor false"));
    return at(name).get<bool>();
  }
  DType dtype() const {
    const std::string name = text("dtype");
    const auto dtype = parse_dtype(name);
    if (!dtype.has_value()) wrong(concat("unknown dtype ", io::in_quotes(name)));
    return *dtype;
  }
  Shape shape() const {
    Shape shape;
    const IndexJson& sizes = list("shape");
    if (sizes.size() > kMaxRank) wrong("'shape' has too many dimensions");
    for (const IndexJson& size : sizes) {
      constexpr std::uint64_t kMost = std::uint64_t{1} << 48U;
      if (!size.is_number_unsigned() || size.get<std::uint64_t>() > kMost) {
        wrong("'shape' is not a list of sizes");
      }
      shape.push_back(size.get<std::int64_t>());
    }
    return shape;
  }
  [[noreturn]] void wrong(std::string_view what) const {
    fail<FileError>(kDumpOp, source_, ": ", where_, ": ", what, ". Make the dump again");
  }

 private:
  std::string_view source_;
  std::string where_;
  const IndexJson& json_;
};

// Reads an index, whose parts refer to earlier ones.
class IndexParser {
 public:
  IndexParser(std::string_view source, const IndexJson& json)
      : source_(source), all_(source, "the index", json) {}

  DumpIndex parse() {
    if (!all_.has("format") || all_.at("format") != kDumpFormat) {
      fail<FileError>(kDumpOp, source_, ": is not the index of a dumped step. Name its folder");
    }
    if (const std::int64_t version = all_.count("version"); version != kDumpVersion) {
      fail<FileError>(kDumpOp, source_, ": has version ", version, ", and this mezzo reads ",
                      kDumpVersion, ". Use the mezzo that wrote it");
    }
    index_.made_by = all_.text("made_by");
    parse_facts();
    for (const IndexJson& file : all_.list("files")) index_.files.push_back(file_name(file));
    for (const IndexJson& source : all_.list("sources")) parse_source(source);
    for (const IndexJson& call : all_.list("calls")) parse_call(call);
    for (const IndexJson& gradient : all_.list("gradients")) {
      const IndexFields fields(source_, "a gradient", gradient);
      index_.gradients.push_back({fields.text("name"), tensor(fields)});
    }
    return std::move(index_);
  }

 private:
  void parse_facts() {
    const IndexFields run(source_, "'run'", all_.at("run"));
    index_.facts = {.title = run.text("title"),
                    .machine = run.text("machine"),
                    .threads = run.count("threads"),
                    .step = run.count("step"),
                    .scale = run.number("scale"),
                    .loss = run.number("loss"),
                    .is_skipped = run.flag("skipped")};
    if (!(index_.facts.scale > 0)) run.wrong("'scale' is not positive");
  }

  // Of a file within the folder.
  std::string file_name(const IndexJson& json) const {
    if (!json.is_string()) all_.wrong("'files' is not a list of names");
    auto name = json.get<std::string>();
    const bool is_plain = !name.empty() && name.find('/') == std::string::npos && name[0] != '.';
    if (!is_plain) all_.wrong(concat(io::in_quotes(name), " is not the name of a file"));
    return name;
  }

  DumpedTensor tensor(const IndexFields& fields) const {
    return {.file = fields.index("file", index_.files.size()),
            .name = fields.text("tensor"),
            .dtype = fields.dtype(),
            .shape = fields.shape()};
  }

  void parse_source(const IndexJson& json) {
    const IndexFields fields(source_, "a source", json);
    const std::string kind = fields.text("kind");
    if (kind != "parameter" && kind != "batch") fields.wrong("'kind' is unknown");
    index_.sources.push_back({kind == "batch" ? Source::kBatch : Source::kParameter,
                              fields.text("name"), tensor(fields)});
  }

  RecordedInput input(const IndexJson& json) const {
    const IndexFields fields(source_, concat("an input of call ", index_.calls.size()), json);
    RecordedInput input{.dtype = fields.dtype()};
    if (fields.has("call")) {
      input.origin.source = Source::kCall;
      input.origin.call = fields.index("call", index_.calls.size());
      input.origin.output = fields.index("result", index_.calls[input.origin.call].results.size());
    } else if (fields.has("parameter") || fields.has("batch")) {
      const bool is_batch = fields.has("batch");
      input.origin.source = is_batch ? Source::kBatch : Source::kParameter;
      input.origin.name = fields.text(is_batch ? "batch" : "parameter");
    }
    return input;
  }

  DumpedResult result(const IndexJson& json) const {
    const IndexFields fields(source_, concat("a result of call ", index_.calls.size()), json);
    DumpedResult result;
    result.id.call = {.path = fields.text("path"),
                      .op = fields.text("op"),
                      .gradient_of = fields.has("gradient_of") ? fields.text("gradient_of") : "",
                      .number = fields.count("number")};
    result.id.output = static_cast<std::size_t>(fields.count("output"));
    result.tensor = tensor(fields);
    result.terms = fields.number("terms");
    if (fields.has("own_error")) {
      result.own = {.is_measured = true,
                    .error = fields.number("own_error"),
                    .largest = fields.number("own_largest"),
                    .explained = fields.number("explained")};
    }
    return result;
  }

  void parse_call(const IndexJson& json) {
    const IndexFields fields(source_, concat("call ", index_.calls.size()), json);
    DumpedCall call;
    for (const IndexJson& entry : fields.list("inputs")) call.inputs.push_back(input(entry));
    for (const IndexJson& entry : fields.list("results")) call.results.push_back(result(entry));
    if (call.results.empty()) fields.wrong("has no results");
    index_.calls.push_back(std::move(call));
  }

  std::string_view source_;
  IndexFields all_;
  DumpIndex index_;
};

}  // namespace

std::string to_json(const DumpIndex& index) {
  const auto source_json = [](const DumpedSource& source) {
    IndexJson json{{"kind", kind_of(source.source)}, {"name", source.name}};
    json.update(json_of(source.tensor));
    return json;
  };
  const auto gradient_json = [](const DumpedGradient& gradient) {
    IndexJson json{{"name", gradient.name}};
    json.update(json_of(gradient.tensor));
    return json;
  };
  const auto text = [](const IndexJson& json) {
    return json.dump(-1, ' ', false, IndexJson::error_handler_t::replace);
  };
  return concat(
      "{\n\"format\": ", text(kDumpFormat), ",\n\"version\": ", kDumpVersion,
      ",\n\"made_by\": ", text(index.made_by), ",\n\"run\": ", text(json_of(index.facts)),
      ",\n\"files\": ", text(index.files), ",\n\"sources\": ", lines_of(index.sources, source_json),
      ",\n\"calls\": ", lines_of(index.calls, [](const DumpedCall& call) { return json_of(call); }),
      ",\n\"gradients\": ", lines_of(index.gradients, gradient_json), "\n}\n");
}

DumpIndex parse_dump_index(std::string_view source, std::string_view text) {
  IndexJson json;
  try {
    json = IndexJson::parse(text.begin(), text.end());
  } catch (const IndexJson::exception& /*error*/) {
    fail<FileError>(kDumpOp, source, ": is not JSON. Make the dump again");
  }
  return IndexParser(source, json).parse();
}

}  // namespace mezzo::numbers
