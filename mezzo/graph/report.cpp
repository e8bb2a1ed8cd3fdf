#include "mezzo/graph/report.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "mezzo/amp/plan.h"
#include "mezzo/graph/capture.h"
#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/passes/cast_plan.h"
#include "mezzo/graph/passes/insert_casts.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {
namespace {

// True for a cast between the dtypes of mixed precision, including one to the same dtype.
bool is_precision_cast(const Program& program, const Node& node) {
  return is_cast(node) && amp::takes_part(program.spec(node.inputs[0]).dtype) &&
         amp::takes_part(program.spec(node.outputs[0]).dtype);
}

// The calls without casts between f32 and 16 bits.
std::vector<const Node*> calls_of(const Program& program) {
  std::vector<const Node*> calls;
  for (const Node& node : program.nodes) {
    if (!node.is_host() && !is_precision_cast(program, node)) calls.push_back(&node);
  }
  return calls;
}

std::string colour_of(const std::optional<DType>& paint) {
  if (!paint.has_value()) return "none";
  return is_lower(*paint) ? "white" : "black";
}

// The reason for a call's dtype, even if the pass that paints gave none.
std::string reason_of(const Node& node) {
  if (!node.reason.empty()) return node.reason;
  return node.policy == nullptr ? "outside mixed precision" : "follows its inputs";
}

std::vector<NamedCount> sorted(const std::map<std::string, std::size_t>& counts) {
  std::vector<NamedCount> result;
  result.reserve(counts.size());
  for (const auto& [name, count] : counts) result.push_back({name, count});
  std::ranges::stable_sort(result, std::greater<>(), &NamedCount::count);
  return result;
}

void count_nodes(const Program& program, GraphReport& report) {
  std::map<std::string, std::size_t> ops;
  std::map<std::string, std::size_t> host_work;
  for (const Node& node : program.nodes) {
    ++report.nodes_in_phase[static_cast<std::size_t>(node.phase)];
    ++(node.is_host() ? host_work[node.host] : ops[node.op->name]);
  }
  report.nodes = program.nodes.size();
  report.ops = sorted(ops);
  report.host_work = sorted(host_work);
}

// A parsed program does not say which of its states are trained: all count then.
bool is_trained(const Value& state) {
  return !state.tensor.defined() || (state.tensor.is_leaf() && state.tensor.requires_grad());
}

void count_states(const Program& program, GraphReport& report) {
  report.inputs = program.inputs.size();
  for (const Value& value : program.values) {
    if (value.kind != ValueKind::kState) continue;
    const bool trained = is_trained(value);
    ++(trained ? report.parameters : report.other_states);
    if (trained) report.memory.parameters += value.spec.bytes();
    report.memory.states += value.spec.bytes();
  }
}

void measure(const Program& program, GraphMemory& memory) {
  const MemoryPlan plan = plan_memory(program);
  memory.arena = plan.arena_bytes;
  memory.least = plan.least_bytes;
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const bool is_copy = plan.homes[v] == Home::kCopy && plan.blocks[v] == v;
    if (is_copy) memory.parameter_copies += program.spec(v).bytes();
  }
}

std::size_t eager_bytes(Program program) {
  for (Node& node : program.nodes) node.over.clear();
  return plan_memory(program).least_bytes;
}

// Replaces the dtypes of painted calls by those in which they run. A network that creates a tensor
// in the dtype of another one, as in `zeros(shape, x.dtype())`, did so before painting; only the
// capture with paints has the final dtype. If the network makes different calls there, which may
// depend on dtypes, the painted dtypes are kept.
void take_dtypes(const Program& as_called, std::vector<PaintedCall>& calls) {
  const Program forward = forward_part(as_called);
  const std::vector<const Node*> nodes = calls_of(forward);
  const auto is_same = [](const PaintedCall& call, const Node* node) {
    return call.op == node->op->name && call.path == node->path;
  };
  if (!std::ranges::equal(calls, nodes, is_same)) return;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].dtype = computing_dtype(forward, *nodes[i]);
  }
}

CompileOptions without_fusions(CompileOptions options) {
  for (const Pass& pass : kFusions) options.passes.disabled.emplace_back(pass.name);
  return options;
}

}  // namespace

DType computing_dtype(const Program& program, const Node& node) {
  const DType result = program.spec(node.outputs[0]).dtype;
  std::optional<DType> found;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue || !node.op->precision.may_cast(i)) continue;
    const DType dtype = program.spec(node.inputs[i]).dtype;
    if (is_floating(dtype)) found = found.has_value() ? promote(*found, dtype) : dtype;
  }
  return is_cast(node) ? result : found.value_or(result);
}

std::vector<PaintedCall> painted_calls(const Program& painted) {
  std::unordered_map<ValueId, const Node*> by_output;
  for (const Node& node : painted.nodes) {
    if (!node.is_host()) by_output[node.outputs[0]] = &node;
  }
  Program program = painted;
  insert_casts(program);
  std::vector<PaintedCall> calls;
  for (const Node* node : calls_of(program)) {
    const Node& before = *by_output.at(node->outputs[0]);
    calls.push_back({.path = node->path,
                     .op = node->op->name,
                     .dtype = computing_dtype(program, *node),
                     .rule = amp::rule_name(before.policy.get(), *before.op),
                     .colour = colour_of(before.paint),
                     .reason = reason_of(before)});
  }
  return calls;
}

StepPrograms capture_programs(const Step& step, std::span<const Tensor> inputs,
                              const CompileOptions& options) {
  StepPrograms programs;
  programs.improved = capture_improved(step, inputs, options, &programs.passes);
  programs.unfused = capture_improved(step, inputs, without_fusions(options));
  programs.painted = painted_forward(step, inputs, options);
  programs.as_called = capture_as_called(step, inputs, options);
  return programs;
}

GraphReport report_on(const StepPrograms& step) {
  GraphReport report{.passes = step.passes};
  count_nodes(step.improved, report);
  count_states(step.improved, report);
  report.calls = painted_calls(step.painted);
  take_dtypes(step.as_called, report.calls);
  report.paint = summarize(step.unfused);
  measure(step.improved, report.memory);
  report.memory.eager = eager_bytes(step.as_called);
  return report;
}

std::size_t total(const std::vector<NamedCount>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0},
                         [](std::size_t sum, const NamedCount& c) { return sum + c.count; });
}

}  // namespace mezzo::graph
