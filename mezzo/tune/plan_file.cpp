#include "mezzo/tune/plan_file.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/source.h"
#include "mezzo/io/utf8.h"

namespace mezzo::amp {
namespace {

using PlanJson = nlohmann::ordered_json;

constexpr const char* kPlanFileOp = "plan";
constexpr const char* kPlanFormat = "mezzo precision plan";
constexpr std::int64_t kPlanVersion = 1;
constexpr std::uint64_t kMostPlanBytes = std::uint64_t{64} << 20U;

std::string one_line(const PlanJson& json) {
  return json.dump(-1, ' ', false, PlanJson::error_handler_t::replace);
}

PlanJson json_of(const PlanRow& row) {
  PlanJson json{{"module", row.module}, {"op", row.op}, {"dtype", name_of(row.dtype)}};
  if (row.exact) json["sums"] = "direct";
  if (!row.reason.empty()) json["reason"] = row.reason;
  if (row.overflowed > 0) json["overflowed"] = row.overflowed;
  if (row.lost > 0) json["lost"] = row.lost;
  return json;
}

// Reads the fields of an object. All but the named ones may be absent.
class PlanFields {
 public:
  PlanFields(const std::string& file, std::string where, const PlanJson& json)
      : file_(file), where_(std::move(where)), json_(json) {
    if (!json.is_object()) wrong("is not an object");
  }

  bool has(const char* name) const { return json_.contains(name); }

  std::string text(const char* name) const {
    if (!has(name)) wrong(concat("has no \"", name, "\""));
    if (!json_[name].is_string()) wrong(concat("\"", name, "\" is not text"));
    return json_[name].get<std::string>();
  }
  std::string text_or(const char* name, const char* otherwise) const {
    return has(name) ? text(name) : otherwise;
  }

  double number_or(const char* name, double otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_[name].is_number()) wrong(concat("\"", name, "\" is not a number"));
    const auto value = json_[name].get<double>();
    if (!std::isfinite(value) || value < 0) {
      wrong(concat("\"", name, "\" is not a number of at least 0"));
    }
    return value;
  }

  std::int64_t count_or(const char* name, std::int64_t otherwise) const {
    if (!has(name)) return otherwise;
    constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (!json_[name].is_number_unsigned() || json_[name].get<std::uint64_t>() > kMost) {
      wrong(concat("\"", name, "\" is not an integer of at least 0"));
    }
    return json_[name].get<std::int64_t>();
  }

  const PlanJson& list(const char* name) const {
    if (!has(name) || !json_[name].is_array()) wrong(concat("has no list \"", name, "\""));
    return json_[name];
  }

  [[noreturn]] void wrong(const std::string& what) const {
    fail<FileError>(kPlanFileOp, file_, ": ", where_, " ", what,
                    ". Correct it, or make the plan again by `mezzo tune`");
  }

 private:
  const std::string& file_;
  std::string where_;
  const PlanJson& json_;
};

PlanRow row_of(const std::string& file, std::size_t number, const PlanJson& json) {
  const PlanFields fields(file, concat("operation ", number), json);
  PlanRow row{.module = fields.text("module"),
              .op = fields.text("op"),
              .reason = fields.text_or("reason", ""),
              .overflowed = fields.number_or("overflowed", 0),
              .lost = fields.number_or("lost", 0)};
  const std::string dtype = fields.text("dtype");
  const std::optional<DType> known = parse_dtype(dtype);
  if (!known.has_value()) {
    fields.wrong(concat("has an unknown dtype ", io::in_quotes(dtype), ", not one of ",
                        trainable_dtypes(), ", or e4m3 for products"));
  }
  row.dtype = *known;
  const std::string sums = fields.text_or("sums", "");
  if (!sums.empty() && sums != "direct") {
    fields.wrong(concat("has sums ", io::in_quotes(sums), ", and there are only \"direct\" ones"));
  }
  row.exact = !sums.empty();
  return row;
}

PlanJson parse_json(std::string_view text, const std::string& name) {
  // A plan nests three deep: a file made to nest deeper would use up the stack.
  constexpr int kDeepest = 8;
  bool is_too_deep = false;
  const auto look = [&](int depth, PlanJson::parse_event_t, PlanJson&) {
    is_too_deep = is_too_deep || depth > kDeepest;
    return !is_too_deep;
  };
  try {
    PlanJson json = PlanJson::parse(text, look);
    if (is_too_deep) fail<FileError>(kPlanFileOp, name, ": nests too deep for a plan");
    return json;
  } catch (const PlanJson::exception&) {
    fail<FileError>(kPlanFileOp, name,
                    ": is not JSON. A plan is what `mezzo tune --out FILE` writes");
  }
}

}  // namespace

std::string plan_text(const PrecisionPlan& plan) {
  std::string text = concat("{\n \"format\": \"", kPlanFormat, "\",\n \"version\": ", kPlanVersion);
  const auto add = [&](const char* name, const PlanJson& value) {
    text += concat(",\n \"", name, "\": ", one_line(value));
  };
  if (!plan.model.empty()) add("model", plan.model);
  if (!plan.machine.empty()) add("machine", plan.machine);
  if (plan.threads > 0) add("threads", plan.threads);
  if (!plan.batch.empty()) add("batch", plan.batch);
  if (plan.step_ms > 0) add("step_ms", plan.step_ms);
  if (plan.error > 0) add("error", plan.error);
  if (plan.error_budget > 0) add("error_budget", plan.error_budget);
  if (plan.has(DType::kE4m3)) add("recipe", name_of(plan.scaling));
  text += ",\n \"operations\": [";
  const char* separator = "\n  ";
  for (const PlanRow& row : plan.rows) {
    text += separator + one_line(json_of(row));
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

PrecisionPlan plan_of_text(std::string_view text, const std::string& name) {
  const PlanJson json = parse_json(text, name);
  const PlanFields fields(name, "the plan", json);
  if (fields.text_or("format", "") != kPlanFormat) {
    fail<FileError>(kPlanFileOp, name,
                    ": is not a precision plan. Name a file that `mezzo tune --out FILE` wrote");
  }
  const std::int64_t version = fields.count_or("version", 0);
  if (version != kPlanVersion) {
    fail<FileError>(kPlanFileOp, name, ": has version ", version, ", and this mezzo reads ",
                    kPlanVersion, ". Use the mezzo that wrote it");
  }
  PrecisionPlan plan{.model = fields.text_or("model", ""),
                     .machine = fields.text_or("machine", ""),
                     .threads = fields.count_or("threads", 0),
                     .batch = fields.text_or("batch", ""),
                     .step_ms = fields.number_or("step_ms", 0),
                     .error = fields.number_or("error", 0),
                     .error_budget = fields.number_or("error_budget", 0)};
  const std::string recipe = fields.text_or("recipe", name_of(Scaling::kCurrent));
  const std::optional<Scaling> scaling = parse_scaling(recipe);
  if (!scaling.has_value()) {
    fields.wrong(
        concat("has an unknown recipe ", io::in_quotes(recipe), ", not one of ", scaling_names()));
  }
  plan.scaling = *scaling;
  for (const PlanJson& row : fields.list("operations")) {
    plan.rows.push_back(row_of(name, plan.rows.size() + 1, row));
  }
  if (plan.rows.empty()) fields.wrong("has no operations");
  check_plan(plan);
  return plan;
}

PrecisionPlan read_plan(const std::string& path) {
  io::FileSource source(path, kPlanFileOp);
  if (source.size() > kMostPlanBytes) {
    fail<FileError>(kPlanFileOp, path, ": has ", source.size(),
                    " bytes, and no plan is that large. Name a file that `mezzo tune` wrote");
  }
  std::string text(static_cast<std::size_t>(source.size()), '\0');
  source.read(std::as_writable_bytes(std::span(text)));
  return plan_of_text(text, path);
}

void write_plan(const std::string& path, const PrecisionPlan& plan) {
  const std::string text = plan_text(plan);
  io::write_file(path, std::as_bytes(std::span(text)), kPlanFileOp);
}

}  // namespace mezzo::amp
