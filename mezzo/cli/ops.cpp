// mezzo ops: every operation with its precision rule and its kernels.
#include "mezzo/cli/command.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/describe.h"

namespace mezzo::cli {
namespace {

struct OpsOptions {
  std::string name{};
  bool markdown = false;
};

void print_table() {
  const std::vector<OpDescription> ops = describe_ops();
  std::vector<std::vector<std::string>> rows{
      {"op", "bf16", "f16", "gradient", "cpu kernels", "cuda kernels", "reason"}};
  for (const OpDescription& op : ops) {
    rows.push_back({op.name, op.bf16, op.f16, op.differentiable ? "yes" : "no", op.cpu_kernels,
                    op.cuda_kernels, op.reason});
  }
  const bool with_cuda = !ops.front().cuda_kernels.empty();
  for (std::vector<std::string>& row : rows) {
    if (!with_cuda) row.erase(row.begin() + 5);
  }
  write_out("{}", format_table(rows));
}

void print_one(const OpDescription& op) {
  write_out("{}: {}\n", op.name, op.doc);
  const auto print_line = [](const char* name, const std::string& value) {
    if (!value.empty()) write_out("  {:<13}{}\n", name, value);
  };
  print_line("bf16", op.bf16);
  print_line("f16", op.f16);
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
  command->add_flag("--markdown", options->markdown, "As docs/ops.md")->excludes(name);
  command->callback([options] { run_ops(*options); });
}

}  // namespace mezzo::cli
