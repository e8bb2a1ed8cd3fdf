#include "mezzo/io/checkpoint_manifest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "mezzo/core/error.h"
#include "mezzo/io/crc32c.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kUseAnother = ". Use another checkpoint";
constexpr std::string_view kFormat = "mezzo checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr int kMaxDepth = 6;  // a manifest nests at most 5 deep
constexpr std::size_t kHexDigits = 8;

// The file begins with its own checksum. While that is computed, these digits stand in its place.
constexpr std::string_view kManifestStart = "{\n  \"checksum\": \"crc32c:";
constexpr std::string_view kNoDigits = "00000000";

std::string hex(std::uint32_t value) {
  std::string text(kHexDigits, '0');
  char digits[kHexDigits];
  const auto result = std::to_chars(digits, digits + kHexDigits, value, 16);
  const auto count = result.ptr - digits;
  std::copy(digits, result.ptr, text.end() - count);
  return text;
}

// Parses exactly eight lower-case hexadecimal digits.
std::optional<std::uint32_t> parse_hex(std::string_view text) {
  std::uint32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (result.ec != std::errc() || hex(value) != text) return std::nullopt;
  return value;
}

std::string checked_text(const std::string& text, std::string_view what) {
  check_arg(find_invalid_utf8(text) == std::string_view::npos, kCheckpointOp, what,
            " is not UTF-8. Encode it first");
  return text;
}

// JSON has no infinities and no NaN; a program that reads null for them would lose which it was.
OrderedJson json_of(double value) {
  if (std::isfinite(value)) return value;
  return OrderedJson{{"number", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}

OrderedJson json_of(const CheckpointValue& value, const std::string& name) {
  if (const auto* const text = std::get_if<std::string>(&value)) {
    return checked_text(*text, concat("the text ", in_quotes(name)));
  }
  if (const auto* const number = std::get_if<double>(&value)) return json_of(*number);
  if (const auto* const number = std::get_if<std::int64_t>(&value)) return *number;
  return std::get<bool>(value);
}

OrderedJson json_of(const std::vector<ManifestFile>& files) {
  OrderedJson list = OrderedJson::array();
  for (const ManifestFile& file : files) {
    list.push_back({{"file", file.file_name()},
                    {"bytes", file.bytes},
                    {"crc32c", hex(file.crc)},
                    {"tensors", file.names}});
  }
  return list;
}

OrderedJson json_of(const Checkpoint& checkpoint, const std::vector<ManifestFile>& files) {
  OrderedJson json{{"checksum", concat("crc32c:", kNoDigits)},
                   {"format", kFormat},
                   {"version", kVersion},
                   {"step", checkpoint.step}};
  if (checkpoint.score) json["score"] = json_of(*checkpoint.score);
  json["files"] = json_of(files);
  OrderedJson random = OrderedJson::object();
  for (const auto& [name, position] : checkpoint.random) {
    random[checked_text(name, "the name of a random stream")] = {{"seed", position.seed},
                                                                 {"offset", position.offset}};
  }
  json["random"] = std::move(random);
  OrderedJson sections = OrderedJson::object();
  for (const auto& [section, values] : checkpoint.values) {
    OrderedJson entries = OrderedJson::object();
    for (const auto& [name, value] : values) {
      const std::string key = checked_text(name, "the name of a value");
      entries[key] = json_of(value, key);
    }
    sections[checked_text(section, "the name of a section")] = std::move(entries);
  }
  json["values"] = std::move(sections);
  return json;
}

// Parses JSON and refuses duplicate names in an object; nlohmann's parser would keep the last one.
Json parse_strictly(std::string_view source, std::string_view text) {
  std::vector<std::set<std::string>> names;
  const auto on_event = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxDepth) {
      fail<FileError>(kCheckpointOp, source, ": too deeply nested", kUseAnother);
    }
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!names.back().insert(name).second) {
        fail<FileError>(kCheckpointOp, source, ": ", in_quotes(name), " occurs twice", kUseAnother);
      }
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), on_event);
  } catch (const Json::parse_error& error) {
    fail<FileError>(kCheckpointOp, source, ": not JSON, up to its byte ", error.byte, kUseAnother);
  } catch (const Json::out_of_range& /*error*/) {
    fail<FileError>(kCheckpointOp, source, ": it has a number that is not finite", kUseAnother);
  }
}

// The fields of one JSON object; errors call the object `where`.
class Fields {
 public:
  Fields(std::string_view source, std::string where, const Json& json)
      : source_(source), where_(std::move(where)), json_(json) {
    if (!json.is_object()) wrong("is not an object");
  }

  // Throws FileError for fields with other names.
  void allow(std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : json_.items()) {
      if (std::ranges::find(known, name) == known.end()) {
        wrong(concat("has the unknown field ", in_quotes(name)));
      }
    }
  }

  bool has(const char* name) const { return json_.contains(name); }

  const Json& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) wrong(concat("has no ", in_quotes(name)));
    return *found;
  }

  const std::string& text(const char* name) const {
    if (!at(name).is_string()) wrong(concat(in_quotes(name), " is not text"));
    return at(name).get_ref<const std::string&>();
  }

  std::uint64_t natural(const char* name) const {
    if (!at(name).is_number_unsigned()) {
      wrong(concat(in_quotes(name), " is not an integer of at least 0"));
    }
    return at(name).get<std::uint64_t>();
  }

  std::int64_t count(const char* name) const {
    const std::uint64_t value = natural(name);
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      wrong(concat(in_quotes(name), " is too large: ", value));
    }
    return static_cast<std::int64_t>(value);
  }

  [[noreturn]] void wrong(std::string_view what) const {
    fail<FileError>(kCheckpointOp, source_, ": ", where_, ": ", what, kUseAnother);
  }

 private:
  std::string_view source_;
  std::string where_;
  const Json& json_;
};

std::optional<double> parse_double(const Json& json) {
  if (json.is_number_float()) return json.get<double>();
  if (!json.is_object() || json.size() != 1 || !json.contains("number")) return std::nullopt;
  const Json& word = json["number"];
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<CheckpointValue> parse_value(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return std::nullopt;
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  return parse_double(json);
}

ManifestFile parse_file(std::string_view source, const Json& json) {
  const Fields fields(source, "an entry of 'files'", json);
  fields.allow({"file", "bytes", "crc32c", "tensors"});
  ManifestFile file;
  const std::string& name = fields.text("file");
  file.group = name.substr(0, name.find('.'));
  if (file.file_name() != name || !is_group_name(file.group)) {
    fields.wrong(concat(in_quotes(name), " is not a file name that mezzo uses"));
  }
  file.bytes = fields.natural("bytes");
  const std::optional<std::uint32_t> crc = parse_hex(fields.text("crc32c"));
  if (!crc) fields.wrong("'crc32c' is not eight hexadecimal digits");
  file.crc = *crc;
  if (!fields.at("tensors").is_array()) fields.wrong("'tensors' is not a list");
  for (const Json& tensor : fields.at("tensors")) {
    if (!tensor.is_string()) fields.wrong("'tensors' is not a list of names");
    file.names.push_back(tensor.get<std::string>());
  }
  return file;
}

std::vector<ManifestFile> parse_files(std::string_view source, const Fields& manifest) {
  if (!manifest.at("files").is_array()) manifest.wrong("'files' is not a list");
  std::vector<ManifestFile> files;
  std::set<std::string> groups;
  for (const Json& json : manifest.at("files")) {
    files.push_back(parse_file(source, json));
    if (!groups.insert(files.back().group).second) {
      manifest.wrong(concat("it lists ", in_quotes(files.back().file_name()), " twice"));
    }
  }
  return files;
}

std::map<std::string, RandomPosition> parse_random(std::string_view source, const Json& json) {
  static_cast<void>(Fields(source, "'random'", json));
  std::map<std::string, RandomPosition> random;
  for (const auto& [name, position] : json.items()) {
    const Fields fields(source, concat("the random stream ", in_quotes(name)), position);
    fields.allow({"seed", "offset"});
    random[name] = {fields.natural("seed"), fields.natural("offset")};
  }
  return random;
}

std::map<std::string, CheckpointValues> parse_values(std::string_view source, const Json& json) {
  static_cast<void>(Fields(source, "'values'", json));
  std::map<std::string, CheckpointValues> sections;
  for (const auto& [section, values] : json.items()) {
    const Fields fields(source, concat("the section ", in_quotes(section)), values);
    CheckpointValues& parsed = sections[section];
    for (const auto& [name, value] : values.items()) {
      std::optional<CheckpointValue> known = parse_value(value);
      if (!known) fields.wrong(concat(in_quotes(name), " is not a value that mezzo writes"));
      parsed[name] = std::move(*known);
    }
  }
  return sections;
}

// Throws FileError unless the text matches its checksum.
void check_checksum(std::string_view source, std::string_view text) {
  std::optional<std::uint32_t> expected;
  if (text.starts_with(kManifestStart) && text.size() >= kManifestStart.size() + kHexDigits) {
    expected = parse_hex(text.substr(kManifestStart.size(), kHexDigits));
  }
  if (!expected) {
    fail<FileError>(
        kCheckpointOp, source, ": it does not begin with its checksum, it begins with ",
        find_invalid_utf8(text) == std::string_view::npos ? in_quotes(text, 40) : "other bytes",
        kUseAnother);
  }
  std::uint32_t crc = crc32c(kNoDigits, crc32c(kManifestStart));
  crc = crc32c(text.substr(kManifestStart.size() + kHexDigits), crc);
  if (crc != *expected) {
    fail<FileError>(kCheckpointOp, source, ": damaged: its checksum is ", hex(crc), ", it says ",
                    hex(*expected), kUseAnother);
  }
}

}  // namespace

bool is_group_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string format_manifest(const Manifest& manifest) {
  std::string text = json_of(manifest.checkpoint, manifest.files).dump(2) + "\n";
  MEZZO_INVARIANT(text.starts_with(kManifestStart));
  text.replace(kManifestStart.size(), kHexDigits, hex(crc32c(text)));
  return text;
}

Manifest parse_manifest(std::string_view source, std::string_view text) {
  check_checksum(source, text);
  // The parser takes a zero byte for the end of its input.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail<FileError>(kCheckpointOp, source, ": not JSON: its byte ", zero, " is 0", kUseAnother);
  }
  const Json json = parse_strictly(source, text);
  const Fields fields(source, "the manifest", json);
  // The format is checked first, since another version may have other fields.
  if (fields.text("format") != kFormat) {
    fields.wrong(concat("its format is ", in_quotes(fields.text("format")), ", expected ",
                        in_quotes(kFormat)));
  }
  if (fields.natural("version") != kVersion) {
    fail<FileError>(kCheckpointOp, source, ": written in version ", fields.natural("version"),
                    " of the format, this program reads version ", kVersion,
                    ". Use the mezzo that wrote it");
  }
  fields.allow({"checksum", "format", "version", "step", "score", "files", "random", "values"});

  Manifest manifest;
  Checkpoint& checkpoint = manifest.checkpoint;
  checkpoint.step = fields.count("step");
  if (fields.has("score")) {
    checkpoint.score = parse_double(fields.at("score"));
    if (!checkpoint.score) fields.wrong("'score' is not a number");
  }
  manifest.files = parse_files(source, fields);
  checkpoint.random = parse_random(source, fields.at("random"));
  checkpoint.values = parse_values(source, fields.at("values"));
  return manifest;
}

}  // namespace mezzo::io
