// mezzo ops: lists every operation with its precision rule and its kernels.
#include "mezzo/cli/command.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/dispatcher/describe.h"

namespace mezzo::cli {
namespace {

struct OpsOptions {
  std::string name{};
  bool markdown = false;
};

void print_table() {
  const std::vector<OpDescription> ops = describe_ops();
  const bool with_cuda = !ops.front().cuda_kernels.empty();
  std::vector<std::vector<std::string>> rows{{"op"}};
  for (const DType dtype : kLowerDTypes) rows[0].emplace_back(name_of(dtype));
  rows[0].insert(rows[0].end(), {"gradient", "cpu kernels"});
  if (with_cuda) rows[0].emplace_back("cuda kernels");
  rows[0].emplace_back("reason");
  for (const OpDescription& op : ops) {
    std::vector<std::string>& row = rows.emplace_back(1, op.name);
    row.insert(row.end(), op.precision.begin(), op.precision.end());
    row.insert(row.end(), {op.differentiable ? "yes" : "no", op.cpu_kernels});
    if (with_cuda) row.push_back(op.cuda_kernels);
    row.push_back(op.reason);
  }
  write_out("{}", format_table(rows));
}

void print_one(const OpDescription& op) {
  write_out("{}: {}\n", op.name, op.doc);
  const auto print_line = [](const char* name, const std::string& value) {
    if (!value.empty()) write_out("  {:<13}{}\n", name, value);
  };
  for (std::size_t i = 0; i < kLowerDTypes.size(); ++i) {
    print_line(name_of(kLowerDTypes[i]), op.precision[i]);
  }
  print_line("reason", op.reason);
  print_line("gradient", op.differentiable ? "yes" : "no");
  print_line("cpu kernels", op.cpu_kernels);
  print_line("cuda kernels", op.cuda_kernels);
}

void run_ops(const OpsOptions& options) {
  if (options.markdown) {
    write_out("{}", ops_as_markdown());
    return;
  }
  if (options.name.empty()) {
    print_table();
    return;
  }
  for (const OpDescription& op : describe_ops()) {
    if (op.name == options.name) {
      print_one(op);
      return;
    }
  }
  fail<ArgumentError>("ops", "unknown operation `", options.name, "`. `mezzo ops` lists them");
}

}  // namespace

void add_ops(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ops", "Operations, their precision rules and kernels");
  auto options = std::make_shared<OpsOptions>();
  CLI::Option* name =
      offer(command->add_option("name", options->name, "Only this operation, with its reason"),
            operation_words());
  command->add_flag("--markdown", options->markdown, "Print docs/ops.md")->excludes(name);
  command->callback([options] { run_ops(*options); });
}

}  // namespace mezzo::cli
