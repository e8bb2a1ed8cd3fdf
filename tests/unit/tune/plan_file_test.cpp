// Tests that a plan's file reads back as it was written, and that every damage is one clear error.
#include "mezzo/tune/plan_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

using testing::HasSubstr;

PrecisionPlan full_plan() {
  return {.model = "lenet5",
          .machine = "A CPU \"of quotes\"",
          .threads = 2,
          .batch = "128 of 3x32x32",
          .step_ms = 12.345678901234567,
          .error = 1e-3,
          .error_budget = 0.1,
          .rows = {{.module = "conv1", .op = "conv2d", .dtype = DType::kF32, .exact = true},
                   {.module = "fc1",
                    .op = "linear",
                    .dtype = DType::kF16,
                    .reason = "saves 12 %; größer",
                    .overflowed = 0.25,
                    .lost = 1.0 / 3},
                   {.op = "relu", .dtype = DType::kBf16}}};
}

void expect_same(const PrecisionPlan& a, const PrecisionPlan& b) {
  EXPECT_EQ(a.scaling, b.scaling);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.machine, b.machine);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.batch, b.batch);
  EXPECT_EQ(a.step_ms, b.step_ms);
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.error_budget, b.error_budget);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    EXPECT_EQ(a.rows[i].text(), b.rows[i].text());
    EXPECT_EQ(a.rows[i].dtype, b.rows[i].dtype);
    EXPECT_EQ(a.rows[i].exact, b.rows[i].exact);
    EXPECT_EQ(a.rows[i].reason, b.rows[i].reason);
    EXPECT_EQ(a.rows[i].overflowed, b.rows[i].overflowed);
    EXPECT_EQ(a.rows[i].lost, b.rows[i].lost);
  }
}

TEST(PlanFile, EightBitsHaveTheirRecipe) {
  PrecisionPlan plan = full_plan();
  plan.rows[1].dtype = DType::kE4m3;
  for (const Scaling scaling : kScalings) {
    plan.scaling = scaling;
    expect_same(plan_of_text(plan_text(plan), "plan.json"), plan);
  }
  std::string text = plan_text(plan);
  text.replace(text.find("mxfp8"), 5, "mxfp4");
  EXPECT_THAT(message_of<FileError>([&] { plan_of_text(text, "plan.json"); }),
              HasSubstr("[plan] plan.json: the plan has an unknown recipe 'mxfp4', not one of "
                        "current, delayed, rows and mxfp8"));
}

TEST(PlanFile, ReadsBackAsItWasWritten) {
  const data::TempFolder folder;
  const std::string path = folder.path("plan.json");
  write_plan(path, full_plan());
  expect_same(read_plan(path), full_plan());
  const PrecisionPlan little{.rows = {{.op = "relu"}}};
  write_plan(path, little);
  expect_same(read_plan(path), little);
}

TEST(PlanFile, HasALineForEveryOperation) {
  EXPECT_EQ(plan_text({.model = "mlp",
                       .threads = 2,
                       .rows = {{.module = "fc", .op = "linear", .dtype = DType::kF16},
                                {.op = "relu", .reason = "cheap"}}}),
            "{\n \"format\": \"mezzo precision plan\",\n \"version\": 1,\n \"model\": \"mlp\",\n"
            " \"threads\": 2,\n \"operations\": [\n"
            "  {\"module\":\"fc\",\"op\":\"linear\",\"dtype\":\"f16\"},\n"
            "  {\"module\":\"\",\"op\":\"relu\",\"dtype\":\"f32\",\"reason\":\"cheap\"}\n ]\n}\n");
}

TEST(PlanFile, FieldsOfLaterVersionsAreIgnored) {
  const PrecisionPlan plan = plan_of_text(
      R"({"format": "mezzo precision plan", "version": 1, "colour": {"deep": [1, [2]]},
          "operations": [{"module": "", "op": "relu", "dtype": "bf16", "taste": null}]})",
      "plan.json");
  ASSERT_EQ(plan.rows.size(), 1);
  EXPECT_EQ(plan.rows[0].dtype, DType::kBf16);
}

std::string text_with(const std::string& operations, const std::string& more = "") {
  return R"({"format": "mezzo precision plan", "version": 1, )" + more + R"("operations": )" +
         operations + "}";
}

std::string refusal_of(const std::string& text) {
  return message_of<FileError>([&] { plan_of_text(text, "p.json"); });
}

constexpr const char* kAdvice = ". Correct it, or make the plan again by `mezzo tune`";

TEST(PlanFile, WhatIsNoPlanIsRefused) {
  const std::string is_no_json =
      "[plan] p.json: is not JSON. A plan is what `mezzo tune --out FILE` writes";
  for (const std::string text : {"", "{", "plan", "{\"a\": 1} 2", "\xff\xfe", "nul"}) {
    EXPECT_EQ(refusal_of(text), is_no_json) << text;
  }
  EXPECT_EQ(refusal_of("[]"), concat("[plan] p.json: the plan is not an object", kAdvice));
  const std::string is_no_plan =
      "[plan] p.json: is not a precision plan. Name a file that `mezzo tune --out FILE` wrote";
  for (const std::string text : {"{}", R"({"format": "mezzo checkpoint"})"}) {
    EXPECT_EQ(refusal_of(text), is_no_plan) << text;
  }
  EXPECT_EQ(refusal_of(R"({"format": "mezzo precision plan", "version": 2, "operations": []})"),
            "[plan] p.json: has version 2, and this mezzo reads 1. Use the mezzo that wrote it");
  EXPECT_THAT(refusal_of(R"({"format": "mezzo precision plan"})"), HasSubstr("has version 0"));
}

TEST(PlanFile, EveryDamageSaysWhereItIs) {
  const auto expect = [](const std::string& text, const std::string& what) {
    EXPECT_EQ(refusal_of(text), concat("[plan] p.json: ", what, kAdvice)) << text;
  };
  const std::string one = R"([{"module": "", "op": "relu", "dtype": "f32"}])";
  const auto row_with = [](const std::string& rest) {
    return text_with(R"([{"module": "", "op": "relu", )" + rest + "}]");
  };
  expect(text_with("[]"), "the plan has no operations");
  expect(text_with("{}"), "the plan has no list \"operations\"");
  expect(text_with("3"), "the plan has no list \"operations\"");
  expect(text_with(one, R"("model": 3, )"), "the plan \"model\" is not text");
  expect(text_with(one, R"("threads": -1, )"),
         "the plan \"threads\" is not an integer of at least 0");
  expect(text_with(one, R"("threads": 1.5, )"),
         "the plan \"threads\" is not an integer of at least 0");
  expect(text_with(one, R"("step_ms": "1", )"), "the plan \"step_ms\" is not a number");
  expect(text_with(one, R"("error": -1, )"), "the plan \"error\" is not a number of at least 0");
  expect(text_with("[1]"), "operation 1 is not an object");
  expect(text_with(R"([{"module": "", "op": "relu", "dtype": "f32"}, {"op": "relu"}])"),
         "operation 2 has no \"module\"");
  expect(text_with(R"([{"module": "", "op": 1}])"), "operation 1 \"op\" is not text");
  expect(row_with(R"("bits": 16)"), "operation 1 has no \"dtype\"");
  expect(row_with(R"("dtype": 16)"), "operation 1 \"dtype\" is not text");
  expect(row_with(R"("dtype": "fp16")"), "operation 1 has an unknown dtype 'fp16', not one of " +
                                             trainable_dtypes() + ", or e4m3 for products");
  expect(row_with(R"("dtype": "f16", "lost": -0.5)"),
         "operation 1 \"lost\" is not a number of at least 0");
  expect(row_with(R"("dtype": "f32", "sums": "wild")"),
         "operation 1 has sums 'wild', and there are only \"direct\" ones");
}

TEST(PlanFile, PlansThatCannotBeObeyedAreRefused) {
  EXPECT_THAT(message_of<ArgumentError>([] {
                plan_of_text(text_with(R"([{"module": "", "op": "fly", "dtype": "f32"}])"),
                             "p.json");
              }),
              HasSubstr("there is no operation `fly`"));
}

TEST(PlanFile, DeepNestingIsRefusedAtOnce) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(refusal_of(text_with(deep)), "[plan] p.json: nests too deep for a plan");
  EXPECT_EQ(refusal_of(deep), "[plan] p.json: nests too deep for a plan");
}

TEST(PlanFile, OneThatCannotBeReadIsAnError) {
  const data::TempFolder folder;
  EXPECT_THAT(message_of<FileError>([&] { read_plan(folder.path("none")); }),
              HasSubstr(folder.path("none")));
  EXPECT_THAT(message_of<FileError>([&] { read_plan(folder.path()); }), HasSubstr(folder.path()));
  EXPECT_THAT(message_of<FileError>([&] { write_plan(folder.path("no/plan"), full_plan()); }),
              HasSubstr("no/plan"));
  const std::string large = folder.path("large");
  std::ofstream(large).put('{');
  std::filesystem::resize_file(large, (std::uintmax_t{64} << 20U) + 1);
  EXPECT_THAT(message_of<FileError>([&] { read_plan(large); }), HasSubstr("no plan is that large"));
}

}  // namespace
}  // namespace mezzo::amp
