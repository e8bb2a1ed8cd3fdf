// Times every operation of the registry on the samples of its definition, with enough examples to
// be worth timing, in every dtype that its kernels take.
//
//   mezzo_op_bench --benchmark_filter='conv2d/.*bf16'
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "mezzo/core/parallel.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {
namespace {

// The approximate number of elements of the largest operand.
constexpr std::int64_t kElements = 1 << 20;

// False for integers and bools.
bool has_floats(const SampleInput& input) { return is_floating(input.dtype_in(DType::kF32)); }

void fill(const SampleInput& input, const Tensor& values) {
  auto* data = values.mutable_data<float>();
  Generator generator(1);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double value = input.low + (input.high - input.low) * generator.uniform();
    data[i] = static_cast<float>(has_floats(input) ? value : std::floor(value));
  }
}

Tensor make_input(const SampleInput& input, DType dtype) {
  if (input.absent) return {};
  const Tensor values = empty(
      input.shape, DType::kF32,
      input.shape.rank() == 4 && has_floats(input) ? Format::kChannelsLast : Format::kContiguous);
  fill(input, values);
  return values.astype(input.dtype_in(dtype));
}

// Inputs that an Autocast region never casts, such as statistics, are f32.
std::vector<Tensor> make_inputs(const OpDef& op, const Sample& sample, DType dtype) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const bool is_cast = (op.precision.cast_mask >> std::min<std::size_t>(i, 31) & 1U) != 0;
    inputs.push_back(make_input(sample.inputs[i], is_cast ? dtype : DType::kF32));
  }
  return inputs;
}

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(&tensor);
  return result;
}

std::int64_t largest(const Sample& sample) {
  std::int64_t most = 0;
  for (const SampleInput& input : sample.inputs) {
    if (!input.absent) most = std::max(most, input.shape.numel());
  }
  return most;
}

// The sample with more examples: the first dimension grows in every input that shares it with the
// first input. Operations for which this is invalid (a product's inner size) keep their sample.
Sample with_more_examples(const Sample& sample) {
  Sample more = sample;
  if (sample.inputs.empty() || sample.inputs[0].shape.rank() == 0) return more;
  const std::int64_t examples = sample.inputs[0].shape[0];
  const std::int64_t factor = kElements / std::max<std::int64_t>(1, largest(sample));
  if (examples == 0 || factor < 2) return more;
  for (SampleInput& input : more.inputs) {
    const bool shares = !input.absent && input.shape.rank() > 0 && input.shape[0] == examples;
    if (shares) input.shape[0] *= factor;
  }
  return more;
}

// True if the operation takes such inputs; nothing is computed.
bool fits(const OpDef& op, const Sample& sample) {
  std::vector<Tensor> inputs;
  for (const SampleInput& input : sample.inputs) {
    inputs.push_back(input.absent ? Tensor() : empty(input.shape, input.dtype_in(DType::kF32)));
  }
  try {
    const std::vector<const Tensor*> operands = pointers(inputs);
    Infer infer(op.name, operands, sample.attrs);
    if (op.infer != nullptr) op.infer(infer);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The work of one call, over all its kernels.
class Total final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double) override {
    flops += work.flops;
    bytes += work.bytes;
  }
  double flops = 0;
  double bytes = 0;
};

void run(benchmark::State& state, const OpDef& op, const Sample& sample, DType dtype) {
  const NoGrad no_grad;
  const std::vector<Tensor> inputs = make_inputs(op, sample, dtype);
  const std::vector<const Tensor*> operands = pointers(inputs);
  Total work;
  {
    const ListenToKernels listening(work);
    call(op, operands, sample.attrs);
  }
  while (state.KeepRunning()) benchmark::DoNotOptimize(call(op, operands, sample.attrs));
  const auto per_second = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["bytes"] = benchmark::Counter(work.bytes, per_second);
  if (work.flops > 0) state.counters["FLOP"] = benchmark::Counter(work.flops, per_second);
}

std::string name_of_case(const OpDef& op, const Sample& sample, DType dtype) {
  std::string name = concat(op.name, "/", name_of(dtype));
  for (const SampleInput& input : sample.inputs) {
    if (!input.absent) name += concat("/", input.shape);
  }
  std::erase(name, ' ');
  return name;
}

void add_op(const OpDef& op) {
  for (const Sample& sample : op.samples()) {
    if (largest(sample) == 0) continue;
    Sample grown = with_more_examples(sample);
    if (!fits(op, grown)) grown = sample;
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      const std::string name = name_of_case(op, grown, dtype);
      benchmark::RegisterBenchmark(name.c_str(), [&op, grown, dtype](benchmark::State& state) {
        run(state, op, grown, dtype);
      })->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace mezzo

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const mezzo::RegisteredOp& entry : mezzo::registered_ops()) {
    // A view has no kernel to time.
    if (entry.op->samples != nullptr && entry.op->view == nullptr) mezzo::add_op(*entry.op);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
