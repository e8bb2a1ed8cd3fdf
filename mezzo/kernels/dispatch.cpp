#include "mezzo/ops/dispatcher/dispatch.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "mezzo/core/log.h"
#include "mezzo/kernels/cpu/simd/isa.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo {
namespace {

// True for arguments whose dtypes only the plain loop computes.
bool is_reference_only(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    if (input->defined() && input->dtype() == DType::kF64) return true;
  }
  return args.output().dtype() == DType::kF64;
}

void log_refusal(const OpDef& op, const char* kernel, const KernelArgs& args, const char* reason) {
  if (!logging::is_enabled(logging::Topic::kDispatch)) return;
  std::string inputs;
  for (const Tensor* input : args.inputs) inputs += concat(inputs.empty() ? "" : ", ", *input);
  logging::write(logging::Topic::kDispatch, op.name, "(", inputs, ") ", args.attributes.to_text(),
                 ": ", kernel, " refused: ", reason);
}

// Former names of kernels and switches, which MEZZO_DISABLE_KERNELS still accepts.
struct FormerName {
  std::string_view former;
  std::string_view name;
};
constexpr FormerName kFormerNames[] = {
    {"cpu_joined", "cpu_direct_narrow"},  {"cpu_norm_again", Switch::kNormRecompute},
    {"cpu_panels", "cpu_grad_weight"},    {"cpu_patches", "cpu_im2col"},
    {"cpu_taps", "cpu_direct"},           {"cpu_tiles", "cpu_bf16_gemm"},
    {"cpu_whole", "cpu_fully_connected"}, {"cpu_windows", "cpu_col2im"}};

std::string current_name(std::string name) {
  const auto found = std::ranges::find(kFormerNames, name, &FormerName::former);
  return found == std::end(kFormerNames) ? std::move(name) : std::string(found->name);
}

bool can_be_disabled(std::string_view name) {
  const auto lists_it = [name](const KernelList* list) {
    if (list == nullptr) return false;
    const auto is_it = [name](const Kernel& kernel) { return name == kernel.name; };
    return std::ranges::any_of(list->entries(), is_it);
  };
  return std::ranges::find(Switch::kAll, name) != Switch::kAll.end() ||
         std::ranges::any_of(registered_ops(), [&](const RegisteredOp& op) {
           return lists_it(op.kernels.cpu) || lists_it(op.kernels.cuda);
         });
}

std::vector<std::string> names_in_environment() {
  const char* text = std::getenv("MEZZO_DISABLE_KERNELS");  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> names;
  std::istringstream list(text != nullptr ? text : "");
  for (std::string name; std::getline(list, name, ',');) {
    if (name.empty()) continue;
    name = current_name(std::move(name));
    if (!can_be_disabled(name)) {
      logging::warn_once(concat("MEZZO_DISABLE_KERNELS names `", name,
                                "`, but there is no such kernel in this build. `mezzo ops` lists "
                                "them; separate names with commas"));
    }
    names.push_back(name);
  }
  return names;
}

std::vector<std::string>& disabled() {
  static std::vector<std::string> names = names_in_environment();
  return names;
}

RefTensor widen(const Tensor& tensor, bool copy, std::vector<Tensor>& keep) {
  if (!tensor.defined()) return {};
  const bool on_host = tensor.device().is_cpu();
  if (on_host && tensor.dtype() == DType::kF64 && tensor.is_dense()) {
    return {const_cast<double*>(tensor.data<double>()), tensor.shape(), tensor.dtype()};
  }
  const Tensor wide = empty(tensor.shape(), DType::kF64);
  // From a device, the tensor is copied in its own dtype first: then the host's loop widens, as
  // always.
  if (copy) copy_elements(tensor.to(kCpuDevice), wide);
  keep.push_back(wide);
  // An empty tensor has no memory, yet must not look absent.
  static double nothing = 0;
  return {wide.numel() > 0 ? wide.mutable_data<double>() : &nothing, tensor.shape(),
          tensor.dtype()};
}

// Rounds 16-bit results of 16-bit and f32 operands to f32 first. All other kernels compute in f32,
// too, and graph mode treats a call and a cast of its result as one call.
void round_to_f32(const Tensor& wide) {
  auto* values = wide.mutable_data<double>();
  for (std::int64_t i = 0; i < wide.numel(); ++i) values[i] = static_cast<float>(values[i]);
}

double bytes_of(const KernelArgs& args) {
  double bytes = 0;
  for (const Tensor* input : args.inputs) {
    if (input->defined()) bytes += static_cast<double>(input->bytes());
  }
  for (const Tensor& output : args.outputs) {
    // Pending outputs, which their readers compute, are not written.
    if (output.storage()->is_materialized()) bytes += static_cast<double>(output.bytes());
  }
  return bytes;
}

KernelWork work_of(const OpDef& op, const char* kernel, const KernelArgs& args) {
  const double flops =
      op.flops != nullptr ? op.flops(args.inputs, args.outputs, args.attributes) : 0;
  return {op.name, kernel, args.input(0).dtype(), flops, bytes_of(args)};
}

// The first kernel that takes the call, or null. Appends the reasons of those that do not to
// `reasons`.
const Kernel* first_that_takes(const OpDef& op, const KernelList* list, const KernelArgs& args,
                               std::string& reasons) {
  if (list == nullptr || is_reference_only(args)) return nullptr;
  for (const Kernel& kernel : list->entries()) {
    if (is_kernel_disabled(kernel.name)) continue;
    const Support support = kernel.supports != nullptr ? kernel.supports(args) : Support::yes();
    if (support) return &kernel;
    log_refusal(op, kernel.name, args, support.reason);
    reasons += concat(" ", kernel.name, ": ", support.reason, ".");
  }
  return nullptr;
}

// Runs a kernel of that name, and notifies the kernel listener.
template <class Body>
void run_named(const OpDef& op, const char* kernel, const KernelArgs& args, const Body& body) {
  run_listened_on(
      args.output().device(), [&] { return work_of(op, kernel, args); }, body);
}

}  // namespace

void run_reference(RefKernel kernel, const KernelArgs& args) {
  std::vector<Tensor> keep;
  RefArgs ref{{}, {}, args.attributes};
  for (const Tensor* input : args.inputs) ref.inputs.push_back(widen(*input, true, keep));
  std::vector<std::size_t> rounded;  // outputs that were computed in a temporary
  const std::size_t first = keep.size();
  for (std::size_t i = 0; i < args.outputs.size(); ++i) {
    const std::size_t before = keep.size();
    ref.outputs.push_back(widen(args.outputs[i], false, keep));
    if (keep.size() > before) rounded.push_back(i);
  }
  kernel(ref);
  const bool is_f64 = is_reference_only(args);
  for (std::size_t k = 0; k < rounded.size(); ++k) {
    const Tensor& output = args.outputs[rounded[k]];
    if (is_lower(output.dtype()) && !is_f64) round_to_f32(keep[first + k]);
    if (output.device().is_cpu()) {
      copy_elements(keep[first + k], output);
    } else {
      const Tensor narrow = empty(output.shape(), output.dtype());
      copy_elements(keep[first + k], narrow);
      copy_elements(narrow, output);
    }
  }
}

void disable_kernels(std::vector<std::string> names) { disabled() = std::move(names); }

bool is_kernel_disabled(std::string_view name) {
  return std::ranges::find(disabled(), name) != disabled().end();
}

PreparedCall::PreparedCall(const OpDef& op, Inputs inputs, std::span<Tensor> outputs,
                           const Attrs& attrs)
    : op_(&op) {
  kernels::limit_isa();
  const OpKernels& kernels = kernels_of(op);
  const Device device = outputs[0].device();
  std::string reasons;
  kernel_ = first_that_takes(op, kernels.on(device.type), {inputs, outputs, attrs}, reasons);
  if (kernel_ == nullptr && kernels.ref == nullptr) {
    fail<UnsupportedError>(op.name, "no kernel takes this call on ", device, ".", reasons,
                           " Cast the inputs to f32");
  }
}

bool normalises_input(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs,
                      std::size_t input, bool adds) {
  kernels::limit_isa();
  const KernelArgs args{inputs, outputs, attrs};
  std::string reasons;
  const Kernel* const kernel = first_that_takes(op, kernels_of(op).cpu, args, reasons);
  return kernel != nullptr && kernel->normalises != nullptr &&
         kernel->normalises(args, input, adds);
}

std::unique_ptr<ResultRows> rows_of(const OpDef& op, Inputs inputs, std::span<Tensor> outputs,
                                    const Attrs& attrs) {
  kernels::limit_isa();
  const KernelArgs args{inputs, outputs, attrs};
  std::string reasons;
  const Kernel* const kernel = first_that_takes(op, kernels_of(op).cpu, args, reasons);
  return kernel != nullptr && kernel->rows != nullptr ? kernel->rows(args) : nullptr;
}

void PreparedCall::run(Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs) const {
  const KernelArgs args{inputs, outputs, attrs};
  if (kernel_ != nullptr) {
    run_named(*op_, kernel_->name, args, [&] { kernel_->run(args); });
  } else {
    const RefKernel reference = *kernels_of(*op_).ref;
    run_named(*op_, "reference", args, [&] { run_reference(reference, args); });
  }
}

void run_kernel(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs) {
  PreparedCall(op, inputs, outputs, attrs).run(inputs, outputs, attrs);
}

}  // namespace mezzo
