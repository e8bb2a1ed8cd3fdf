#include "mezzo/graph/verify.h"

#include <gtest/gtest.h>

#include "mezzo/graph/passes/infer_specs.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

constexpr const char* kGood = R"(program(x: f32[4, 3, 8, 8] channels_last, m: bf16[4, 3, 8]) {
  state weight: bf16[5, 8]
  state mean: f32[3]
  %0: bf16[4, 3, 8, 8] channels_last = cast(x) {dtype=bf16}
  %1: bf16[4, 3, 8, 8] channels_last = relu(%0) over(%0)
  %2: bf16[4, 3, 5] = linear(m, weight, _)
  %3: bf16[4, 3, 5] = linear(m, weight)
  %4: bf16[5, 4, 3] strides=[1, 15, 5] = permute(%2) {shape=[2, 0, 1]}
  %5: bf16[60] = reshape(%3) {shape=[60]}
  host update(mean, %1, _) #update
  return %4, x
}
)";

TEST(Verify, TakesWhatIsRight) {
  EXPECT_NO_THROW(verify(parse_program(kGood)));
  EXPECT_NO_THROW(verify(Program()));
}

// The message for kGood with a piece of text replaced.
std::string fault_with(std::string_view from, std::string_view to) {
  std::string text = kGood;
  text.replace(text.find(from), from.size(), to);
  return message_of<ArgumentError>([&] { verify(parse_program(text)); });
}

TEST(Verify, ResultsMustBeWhatTheOperationMakes) {
  EXPECT_EQ(fault_with("%0: bf16[4, 3, 8, 8] channels_last", "%0: f16[4, 3, 8, 8] channels_last"),
            "[graph] the operation computes bf16[4, 3, 8, 8] channels_last of these inputs: %0: "
            "f16[4, 3, 8, 8] channels_last = cast(x) {dtype=bf16}");
  EXPECT_EQ(fault_with("%0: bf16[4, 3, 8, 8] channels_last", "%0: bf16[4, 3, 8, 8]"),
            "[graph] the operation computes bf16[4, 3, 8, 8] channels_last of these inputs: %0: "
            "bf16[4, 3, 8, 8] = cast(x) {dtype=bf16}");
  EXPECT_EQ(fault_with("%2: bf16[4, 3, 5]", "%2: bf16[4, 3, 6]"),
            "[graph] the operation computes bf16[4, 3, 5] of these inputs: %2: bf16[4, 3, 6] = "
            "linear(m, weight, _)");
  EXPECT_EQ(fault_with("[1, 15, 5]", "[1, 12, 5]"),
            "[graph] the operation computes bf16[5, 4, 3] strides=[1, 15, 5] of these inputs: %4: "
            "bf16[5, 4, 3] strides=[1, 12, 5] = permute(%2) {shape=[2, 0, 1]}");
  EXPECT_EQ(fault_with("linear(m, weight)", "linear(m, mean)").substr(0, 25),
            "[graph] [linear] weight m");
}

TEST(Verify, AViewMustExist) {
  EXPECT_EQ(
      fault_with("reshape(%3)", "reshape(%4)"),
      "[graph] such a result is not a view of that input: %5: bf16[60] = reshape(%4) {shape=[60]}");
}

// A program that was read may have attributes that no function would create.
TEST(Verify, AttributesMustSuitTheInput) {
  const auto fault_of = [](std::string_view call) {
    return message_of<ArgumentError>([&] {
      verify(parse_program(concat("program(x: f32[4, 6]) {\n  ", call, "\n  return %0\n}\n")));
    });
  };
  EXPECT_EQ(fault_of("%0: f32[] = mean(x) {axes=[0, 4294967296] keepdim=false f32_result=false}")
                .substr(0, 41),
            "[graph] [mean] axis out of range: 4294967");
  EXPECT_EQ(
      fault_of("%0: f32[4] = sum(x) {axes=[-1] keepdim=false f32_result=false}").substr(0, 41),
      "[graph] [sum] an axis is negative: [-1]. ");
  EXPECT_EQ(fault_of("%0: f32[6, 6] strides=[1, 1] = permute(x) {shape=[1, 1]}").substr(0, 57),
            "[graph] [permute] [1, 1] is not a permutation of 2 axes. ");
  EXPECT_EQ(fault_of("%0: f32[4, 6] = permute(x) {shape=[0, 4294967296]}").substr(0, 43),
            "[graph] [permute] [0, 4294967296] is not a ");
  EXPECT_EQ(fault_of("%0: f32[5, 6] strides=[0, 1] = expand(x) {shape=[5, 6]}").substr(0, 60),
            "[graph] [expand] shapes cannot be broadcast together: [4, 6]");
  EXPECT_EQ(fault_of("%0: f32[2, 4, 6] = reshape(x) {shape=[2, 4, 6]}").substr(0, 51),
            "[graph] such a result is not a view of that input: ");
  EXPECT_EQ(fault_of("%0: f32[2, 6] = slice(x) {axis=0 start=3 count=2 step=1}").substr(0, 71),
            "[graph] [slice] f32[4, 6] has no such elements: {axis=0 start=3 count=2");
}

TEST(Verify, InputsMustBeThere) {
  EXPECT_EQ(fault_with("linear(m, weight)", "linear(m)"),
            "[graph] lacks input 1: %3: bf16[4, 3, 5] = linear(m)");
  EXPECT_EQ(fault_with("linear(m, weight)", "linear(_, weight)"),
            "[graph] lacks input 0: %3: bf16[4, 3, 5] = linear(_, weight)");
}

TEST(Verify, WhatIsWrittenOverMustBeThereAndAsLarge) {
  EXPECT_EQ(fault_with("over(%0)", "over(m)"),
            "[graph] writes over m, which takes 192 bytes instead of 1536: "
            "%1: bf16[4, 3, 8, 8] channels_last = relu(%0) over(m)");
  EXPECT_EQ(fault_with("over(%0)", "over(%0, %0)"),
            "[graph] more values to overwrite than results: %1: bf16[4, 3, 8, 8] channels_last = "
            "relu(%0) over(%0, %0)");
  Program program = parse_program(kGood);
  program.nodes[1].over.push_back(kNoValue);  // an operation may omit results
  EXPECT_NO_THROW(verify(program));
  program.nodes[1].over = program.nodes[1].outputs;
  EXPECT_EQ(message_of<ArgumentError>([&] { verify(program); }),
            "[graph] writes over %1, which is computed later: %1: bf16[4, 3, 8, 8] channels_last = "
            "relu(%0) over(%1)");
}

// A result that overwrites another value's elements has its layout.
TEST(Verify, WhatIsWrittenOverDecidesTheLayout) {
  const std::string_view text = R"(program(a: f32[2, 3], b: f32[2, 3] strides=[1, 2]) {
  %0: f32[2, 3] strides=[1, 2] = add(a, b) over(b)
  return %0
}
)";
  EXPECT_NO_THROW(verify(parse_program(text)));
  std::string without(text);
  without.erase(without.find(" over(b)"), 8);
  EXPECT_THROW(verify(parse_program(without)), ArgumentError);
}

// x, and three consecutive calls of relu.
Program chain() {
  return parse_program(R"(program(x: f32[2]) {
  state w: f32[2]
  %0: f32[2] = relu(x)
  %1: f32[2] = relu(%0)
  %2: f32[2] = relu(%1)
  return %2
}
)");
}

std::string fault_after(void (*change)(Program&)) {
  Program program = chain();
  change(program);
  return message_of<ArgumentError>([&] { verify(program); });
}

TEST(Verify, ValuesMustBeMadeOnceAndBeforeTheyAreRead) {
  EXPECT_EQ(fault_after([](Program& p) { std::swap(p.nodes[0], p.nodes[1]); }),
            "[graph] reads %0, which is computed later: %1: f32[2] = relu(%0)");
  EXPECT_EQ(fault_after([](Program& p) { p.nodes.erase(p.nodes.begin() + 1); }),
            "[graph] reads %1, which nothing computes: %2: f32[2] = relu(%1)");
  EXPECT_EQ(fault_after([](Program& p) { p.nodes.pop_back(); }),
            "[graph] the program returns %2, which nothing computes");
  EXPECT_EQ(fault_after([](Program& p) { p.nodes[1].outputs = p.nodes[0].outputs; }),
            "[graph] %0 is computed twice: %0: f32[2] = relu(%0)");
  EXPECT_EQ(fault_after([](Program& p) {
              p.nodes[1].outputs = {3, 3};
            }),
            "[graph] %1 is computed twice: %1: f32[2], %1: f32[2] = relu(%0)");
  EXPECT_EQ(fault_after([](Program& p) { p.nodes[1].inputs = {77}; }),
            "[graph] reads %?, which nothing computes: %1: f32[2] = relu(%?)");
  EXPECT_EQ(fault_after([](Program& p) { p.outputs = {77}; }),
            "[graph] the program returns %?, which nothing computes");
}

TEST(Verify, KindsMustAgreeWithPlaces) {
  EXPECT_EQ(fault_after([](Program& p) { p.nodes[1].outputs = {1}; }),
            "[graph] the result w is an input or a state of the program: w: f32[2] = relu(%0)");
  EXPECT_EQ(
      fault_after([](Program& p) { p.values[0].kind = ValueKind::kState; }),
      "[graph] x is listed as an input 1 times. Inputs must be listed once, other values never");
  EXPECT_EQ(
      fault_after([](Program& p) { p.inputs.clear(); }),
      "[graph] x is listed as an input 0 times. Inputs must be listed once, other values never");
  EXPECT_EQ(
      fault_after([](Program& p) { p.inputs.push_back(0); }),
      "[graph] x is listed as an input 2 times. Inputs must be listed once, other values never");
  EXPECT_EQ(fault_after([](Program& p) { p.values[3].name = "w"; }),
            "[graph] two values are called w. A text could not tell them apart");
}

TEST(Verify, NodesMustHaveResultsUnlessTheyAreHostWork) {
  EXPECT_EQ(fault_after([](Program& p) { p.nodes[2].outputs.clear(); }),
            "[graph] a call has no result: relu(%1)");
  EXPECT_EQ(fault_after([](Program& p) { p.nodes[2].outputs = {77}; }),
            "[graph] a result is undefined: %?: ? = relu(%1)");
  EXPECT_EQ(fault_after([](Program& p) {
              p.nodes[2].op = nullptr;
              p.nodes[2].host = "count";
            }),
            "[graph] host work has results: %2: f32[2] = host count(%1)");
  EXPECT_EQ(fault_after([](Program& p) {
              p.nodes[2].outputs.push_back(p.add_result(ValueSpec::dense({2}, DType::kF32)));
            }),
            "[graph] the operation has 1 results: %2: f32[2], %3: f32[2] = relu(%1)");
}

TEST(Verify, SpecsMustHaveAStridePerSize) {
  EXPECT_EQ(fault_after([](Program& p) { p.values[3].spec.strides = {}; }),
            "[graph] %1 has the shape [2] and the strides []. There must be one stride per size, "
            "and none negative");
  EXPECT_EQ(fault_after([](Program& p) { p.values[3].spec.shape = {-2}; }),
            "[graph] %1 has the shape [-2] and the strides [1]. There must be one stride per size, "
            "and none negative");
}

TEST(Verify, LayoutsMayDifferWhereTheyMeanTheSame) {
  const auto program_of = [](std::string_view strides) {
    return parse_program(concat("program(x: f32[2, 1, 3]) {\n  %0: f32[2, 1, 3]", strides,
                                " = relu(x)\n  return %0\n}\n"));
  };
  EXPECT_NO_THROW(verify(program_of(" strides=[3, 50, 1]")));
  EXPECT_THROW(verify(program_of(" strides=[4, 50, 1]")), ArgumentError);
}

// A program with one call, that of a sample.
Program program_of(const OpDef& op, const Sample& sample) {
  Program program;
  Node node{.op = &op, .attrs = sample.attrs};
  for (const SampleInput& input : sample.inputs) {
    const ValueSpec spec = ValueSpec::dense(input.shape, input.dtype_in(DType::kF32));
    const std::string name = concat("x", node.inputs.size());
    node.inputs.push_back(input.absent ? kNoValue : program.add_input(spec, name));
  }
  std::vector<const ValueSpec*> inputs;
  for (const ValueId input : node.inputs) {
    inputs.push_back(input == kNoValue ? nullptr : &program.spec(input));
  }
  for (const ValueSpec& spec : infer_specs(op, sample.attrs, inputs)) {
    node.outputs.push_back(program.add_result(spec));
  }
  program.nodes.push_back(std::move(node));
  return program;
}

// A program may contain any call that the sweeps make.
TEST(Verify, KnowsEveryOperation) {
  std::size_t verified = 0;
  for (const RegisteredOp& entry : registered_ops()) {
    for (const Sample& sample : entry.op->samples()) {
      Program program = program_of(*entry.op, sample);
      EXPECT_NO_THROW(verify(program));
      program.values[program.nodes[0].outputs[0]].spec.dtype = DType::kU8;
      EXPECT_THROW(verify(program), ArgumentError) << to_text(program);
      ++verified;
    }
  }
  EXPECT_GT(verified, 100U);
}

}  // namespace
}  // namespace mezzo::graph
