#include "mezzo/graph/text.h"

#include <gtest/gtest.h>

#include "mezzo/amp/policy.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

constexpr const char* kEverything = R"(program(x: f32[4, 3, 8, 8] channels_last, labels: i64[4]) {
  state fc.weight: f32[16, 192]
  state mask: bf16[4, 4] strides=[1, 4]
  %0: bf16[4, 3, 8, 8] channels_last = cast(x) {dtype=bf16}
  %1: bf16[4, 192] = reshape(%0) {shape=[4, 192]} @layer1.0
  y: bf16[4, 16] = linear(%1, fc.weight, _) @fc [O2/bf16]
  %2: bf16[4, 16] = relu(y) over(y) @layer1.0.relu in bf16 because "it only \"chooses\""
  %3: f32[16], %4: f32[16], %5: bf16[4, 16] = some(%2, %2) over(_, _, y) [auto/f16 keep_batchnorm_fp32=false] #backward
  host update_running_stats(%3, _, mask) @bn1 #update
  return %2, x
}
)";

// `some` stands for an operation that takes two inputs without attributes.
std::string with_op(std::string text) {
  const std::string_view from = " = some(";
  return text.replace(text.find(from), from.size(), " = relu_grad(");
}

TEST(ProgramText, IsTheSameAfterReading) {
  const std::string text = with_op(kEverything);
  EXPECT_EQ(to_text(parse_program(text)), text);
}

TEST(ProgramText, SaysEverythingOfANode) {
  const Program program = parse_program(with_op(kEverything));
  ASSERT_EQ(program.nodes.size(), 6U);
  ASSERT_EQ(program.inputs.size(), 2U);
  EXPECT_EQ(program.spec(program.inputs[0]),
            ValueSpec::dense({4, 3, 8, 8}, DType::kF32, Format::kChannelsLast));
  EXPECT_EQ(program.values[program.inputs[1]].kind, ValueKind::kInput);
  EXPECT_EQ(program.values[2].kind, ValueKind::kState);
  EXPECT_EQ(program.values[2].name, "fc.weight");
  EXPECT_EQ(program.spec(3), (ValueSpec{{4, 4}, DType::kBf16, {1, 4}}));

  const Node& linear = program.nodes[2];
  EXPECT_STREQ(linear.op->name, "linear");
  EXPECT_EQ(linear.inputs, (std::vector<ValueId>{program.nodes[1].outputs[0], 2, kNoValue}));
  EXPECT_EQ(linear.path, "fc");
  ASSERT_NE(linear.policy, nullptr);
  EXPECT_EQ(*linear.policy, (amp::Policy{amp::Level::kO2, DType::kBf16}));
  EXPECT_FALSE(linear.paint.has_value());
  EXPECT_EQ(program.values[linear.outputs[0]].name, "y");

  const Node& relu = program.nodes[3];
  EXPECT_EQ(relu.over, linear.outputs);
  EXPECT_EQ(relu.paint, DType::kBf16);
  EXPECT_EQ(relu.reason, "it only \"chooses\"");
  EXPECT_EQ(relu.phase, Phase::kForward);

  const Node& grad = program.nodes[4];
  EXPECT_EQ(grad.outputs.size(), 3U);
  EXPECT_EQ(grad.over, (std::vector<ValueId>{kNoValue, kNoValue, linear.outputs[0]}));
  EXPECT_EQ(*grad.policy, (amp::Policy{amp::Level::kAuto, DType::kF16, false}));
  EXPECT_EQ(grad.phase, Phase::kBackward);

  const Node& host = program.nodes[5];
  EXPECT_TRUE(host.is_host());
  EXPECT_EQ(host.host, "update_running_stats");
  EXPECT_EQ(host.inputs, (std::vector<ValueId>{grad.outputs[0], kNoValue, 3}));
  EXPECT_EQ(host.phase, Phase::kUpdate);
  EXPECT_FALSE(host.work);
  EXPECT_EQ(program.outputs, (std::vector<ValueId>{relu.outputs[0], program.inputs[0]}));
}

TEST(ProgramText, OfEveryOperationIsReadBack) {
  for (const RegisteredOp& entry : registered_ops()) {
    for (const Sample& sample : entry.op->samples()) {
      Program program;
      const ValueId x = program.add_input(ValueSpec::dense({2}, DType::kF32), "x");
      const ValueId y = program.add_result(ValueSpec::dense({2}, DType::kF32));
      program.nodes.push_back(
          {.op = entry.op, .attrs = sample.attrs, .inputs = {x}, .outputs = {y}});
      const std::string text = to_text(program);
      const Program read = parse_program(text);
      EXPECT_EQ(to_text(read), text);
      EXPECT_EQ(read.nodes[0].op, entry.op);
      EXPECT_EQ(read.nodes[0].attrs, sample.attrs) << text;
    }
  }
}

TEST(ProgramText, NumbersValuesAsTheyAppear) {
  Program program;
  const ValueSpec spec = ValueSpec::dense({2}, DType::kF32);
  const ValueId last = program.add_result(spec);
  const ValueId first = program.add_result(spec);
  const ValueId x = program.add_input(spec, "x");
  const OpDef* relu = find_op("relu");
  program.nodes.push_back({.op = relu, .inputs = {x}, .outputs = {first}});
  program.nodes.push_back({.op = relu, .inputs = {first}, .outputs = {last}});
  program.outputs = {last};
  EXPECT_EQ(to_text(program), R"(program(x: f32[2]) {
  %0: f32[2] = relu(x)
  %1: f32[2] = relu(%0)
  return %1
}
)");
}

// Strides of size-1 axes are irrelevant, but a text without them would be another program.
TEST(ProgramText, KeepsStridesExactly) {
  for (const ValueSpec& spec :
       {ValueSpec::dense({2, 3, 1, 1}, DType::kF16), ValueSpec{{2, 1}, DType::kF32, {1, 7}},
        ValueSpec::dense({2, 3, 1, 1}, DType::kF16, Format::kChannelsLast),
        ValueSpec{{3, 2}, DType::kI32, {0, 1}}, ValueSpec::dense({}, DType::kF64),
        ValueSpec::dense({0, 3}, DType::kU8)}) {
    Program program;
    program.add_input(spec, "x");
    const std::string text = to_text(program);
    EXPECT_EQ(parse_program(text).spec(0), spec) << text;
  }
  EXPECT_EQ(to_text(ValueSpec::dense({2, 3, 1, 1}, DType::kF16, Format::kChannelsLast)),
            "f16[2, 3, 1, 1] channels_last");
  EXPECT_EQ(to_text(ValueSpec::dense({2, 1, 3, 3}, DType::kF16)), "f16[2, 1, 3, 3]");
}

TEST(ProgramText, OfAnEmptyProgram) {
  const std::string text = "program() {\n  return\n}\n";
  EXPECT_EQ(to_text(parse_program(text)), text);
}

TEST(ProgramText, RulesOfTheUserAreShownAndNotReadBack) {
  Program program;
  const ValueId x = program.add_input(ValueSpec::dense({2}, DType::kF32), "x");
  const ValueId y = program.add_result(ValueSpec::dense({2}, DType::kF32));
  const auto rules = std::make_shared<const amp::OpRules>(amp::OpRules().lower("relu"));
  program.nodes.push_back({.op = find_op("relu"),
                           .inputs = {x},
                           .outputs = {y},
                           .policy = std::make_shared<const amp::Policy>(amp::Policy{
                               .level = amp::Level::kO1, .lower = DType::kF16, .rules = rules})});
  const std::string text = to_text(program);
  EXPECT_EQ(text, "program(x: f32[2]) {\n  %0: f32[2] = relu(x) [O1/f16 rules]\n  return\n}\n");
  EXPECT_EQ(message_of<ArgumentError>([&] { parse_program(text); }),
            "[program] line 2: the text does not contain the user's rules. Only policies without "
            "such rules can be read");
}

// The message for a program with one line between `program(x: f32[2]) {` and `return`.
std::string fault_of(std::string_view line) {
  const std::string text = concat("program(x: f32[2]) {\n  ", line, "\n  return\n}\n");
  return message_of<ArgumentError>([&] { parse_program(text); });
}

TEST(ProgramText, SaysWhatIsWrongInWhichLine) {
  EXPECT_EQ(fault_of("%0: f32[2] = reul(x)"),
            "[program] line 2: there is no operation \"reul\". `mezzo ops` lists them");
  EXPECT_EQ(fault_of("%0: f32[2] = relu(%0)"),
            "[program] line 2: %0 is used before it is defined. Define it in an earlier line");
  EXPECT_EQ(fault_of("x: f32[2] = relu(x)"),
            "[program] line 2: x is defined twice. Rename one of the two");
  EXPECT_EQ(fault_of("%0: f32[2], %0: f32[2] = relu(x)"),
            "[program] line 2: %0 is defined twice. Rename one of the two");
  EXPECT_EQ(fault_of("%0: f33[2] = relu(x)"),
            "[program] line 2: expected a dtype, found \"f33[2] = relu(x)\"");
  EXPECT_EQ(fault_of("%0: f32[-2] = relu(x)"),
            "[program] line 2: expected sizes such as [2, 3], at most 6 and none negative, found "
            "\"[-2] = relu(x)\"");
  EXPECT_EQ(fault_of("%0: f32[4294967296, 4294967296] = relu(x)"),
            "[program] line 2: expected sizes whose bytes can be counted, found "
            "\"[4294967296, 4294967296] = relu(x)\"");
  EXPECT_EQ(fault_of("%0: f32[3] strides=[4611686018427387904] = relu(x)"),
            "[program] line 2: expected strides whose bytes can be counted, found "
            "\"[4611686018427387904] = relu(x)\"");
  EXPECT_EQ(fault_of("%0: f32[2] channels_last = relu(x)"),
            "[program] line 2: expected 4 sizes, because the format is channels_last, found \"[2] "
            "channels_last = relu(x)\"");
  EXPECT_EQ(fault_of("%0: f32[2] strides=[1, 1] = relu(x)"),
            "[program] line 2: expected one stride per size, found \"[1, 1] = relu(x)\"");
  EXPECT_EQ(fault_of("%0: f32[2] relu(x)"),
            "[program] line 2: expected \" = \", found \" relu(x)\"");
  EXPECT_EQ(fault_of("%0: f32[2] = relu(x) {a=1}"),
            "[program] line 2: [relu] there is no attribute in \"a=1\". Give none, each as "
            "name=value");
  EXPECT_EQ(fault_of("%0: f32[2] = relu(x) @a b"),
            "[program] line 2: expected the end of the line, found \" b\"");
  EXPECT_EQ(fault_of("%0: f32[2] = relu(x) [O4/bf16]"),
            "[program] line 2: expected a level: O0, O1, O2, O3 or auto, found \"O4/bf16]\"");
  EXPECT_EQ(fault_of("%0: f32[2] = relu(x) because \"open"),
            "[program] line 2: expected the closing quote, found the end of the line");
  EXPECT_EQ(fault_of("%0: f32[2] = relu(x) #sideways"),
            "[program] line 2: expected backward or update, found \"sideways\"");
}

TEST(ProgramText, ReadsNoFurtherThanItsEnd) {
  EXPECT_EQ(message_of<ArgumentError>([] { parse_program("program() {\n  return\n"); }),
            "[program] line 3: expected a return line and a closing brace, found the end of the "
            "line");
  EXPECT_EQ(message_of<ArgumentError>([] { parse_program("program() {\n  return\n}\nmore\n"); }),
            "[program] line 4: expected nothing after the closing brace, found \"more\"");
  EXPECT_EQ(message_of<ArgumentError>([] { parse_program("graph() {"); }),
            "[program] line 1: expected \"program(\", found \"graph() {\"");
}

}  // namespace
}  // namespace mezzo::graph
