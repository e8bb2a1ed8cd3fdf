#include "mezzo/numbers/dump.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/file_calls.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/ops/cast.h"

namespace mezzo::numbers {
namespace {

// `000012`: names of a width sort by their number.
std::string padded_number(std::size_t number, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%0*zu", digits, number);
  return text.data();
}

// A copy of the elements in row-major order.
Tensor row_major_copy(const Tensor& tensor) {
  const Tensor host = tensor.to(kCpuDevice);
  return host.is_dense() ? copy_on_host(host) : contiguous(host.detach());
}

}  // namespace

StepDumper::StepDumper(nn::Module& net, std::string folder, const DumpOptions& options)
    : StepReader(net, {.title = options.title, .step = options.step}),
      folder_(std::move(folder)),
      file_bytes_(options.file_bytes),
      on_written_(options.on_written) {
  check_dump_folder(folder_);
  index_.made_by = options.made_by;
}

void StepDumper::begin(const RecordedStep& /*facts*/) { io::make_folders(folder_, kDumpOp); }

DumpedTensor StepDumper::keep(std::string name, const Tensor& tensor) {
  DumpedTensor dumped{.file = index_.files.size(),
                      .name = std::move(name),
                      .dtype = tensor.dtype(),
                      .shape = tensor.shape()};
  pending_.push_back({dumped.name, row_major_copy(tensor)});
  pending_bytes_ += tensor.bytes();
  bytes_ += static_cast<std::int64_t>(tensor.bytes());
  if (pending_bytes_ >= file_bytes_) write_file();
  return dumped;
}

void StepDumper::write_file() {
  if (pending_.empty()) return;
  const std::string name =
      concat("tensors-", padded_number(index_.files.size() + 1, 4), ".safetensors");
  io::write_safetensors(path_of(name), pending_);
  index_.files.push_back(name);
  pending_.clear();
  pending_bytes_ = 0;
}

void StepDumper::take_source(const RecordedSource& source) {
  const std::string name = concat("source.", index_.sources.size());
  index_.sources.push_back({source.source, source.named.name, keep(name, source.named.tensor)});
}

void StepDumper::take_call(RecordedCall call) {
  DumpedCall dumped{.inputs = std::move(call.inputs)};
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const RecordedResult& result = call.results[i];
    const std::string name = concat(padded_number(index_.calls.size(), 6), ".", i);
    dumped.results.push_back({result.id, keep(name, result.tensor), result.own, result.terms});
  }
  index_.calls.push_back(std::move(dumped));
}

void StepDumper::take_gradient(const NamedTensor& gradient) {
  const std::string name = concat("gradient.", index_.gradients.size());
  index_.gradients.push_back({gradient.name, keep(name, gradient.tensor)});
}

void StepDumper::finish(const RecordedStep& facts) {
  write_file();
  index_.facts = facts;
  const std::string json = to_json(index_);
  io::write_file(path_of(kDumpIndexName), std::as_bytes(std::span(json)), kDumpOp);
  if (on_written_) on_written_(*this);
}

void check_dump_folder(const std::string& folder, const char* option) {
  std::error_code error;
  const auto found = std::filesystem::status(folder, error);
  if (std::filesystem::exists(found)) {
    check_arg(std::filesystem::is_directory(found), option, folder,
              ": exists and is not a folder. Name another one");
    check_arg(std::filesystem::is_empty(folder, error), option, folder,
              ": is not empty. Name a new folder");
  }
  io::check_folder_writable(folder, option);
}

bool is_dump(const std::string& folder) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder + "/" + kDumpIndexName, error);
}

}  // namespace mezzo::numbers
