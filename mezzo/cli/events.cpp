#include "mezzo/cli/events.h"

#include <fmt/format.h>

#include "mezzo/cli/table.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/tf32.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/optimizer_names.h"

namespace mezzo::cli {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

std::optional<std::string> text_if_given(const train::LossScaling& scaling) {
  const std::string text = train::text_of(scaling);
  return text.empty() ? std::optional<std::string>() : text;
}

std::optional<std::string> plan_file_of(const train::RunOptions& options) {
  return options.plan != nullptr ? std::optional(options.plan_file) : std::nullopt;
}

Json rates_of(const std::vector<train::RateOf>& rates) {
  Json result = Json::object();
  for (const train::RateOf& rate : rates) result[rate.pattern] = rate.lr;
  return result;
}

}  // namespace

Json data_fields(const train::RunOptions& options) {
  if (data::names_tokens(options.data)) {
    return {{"data", options.data}, {"tokens", options.tokens}};
  }
  return {{"data", options.data},
          {"image_size", options.image_size},
          {"bad_images", options.bad_images == data::BadImages::kSkip ? "skip" : "error"},
          {"workers", options.workers}};
}

Json size_fields(const train::ExampleKind& example) {
  if (example.is_tokens()) return {{"tokens", example.shape[0]}};
  return {{"image_size", example.shape[1]}};
}

Json step_fields(const train::RunOptions& options) {
  const train::OptimizerOptions& optimizer = options.optimizer;
  const train::OptimizerInfo& reads = train::info_of(optimizer.kind);
  return {
      {"recompute", options.recompute},
      {"sync_batchnorm", options.sync_batchnorm},
      {"reduce_dtype", name_of(options.reduce_dtype)},
      {"shard_optimizer", options.shard_optimizer},
      {"graph", options.graph},
      {"optimizer", reads.name},
      {"lr", optimizer.lr},
      {"lr_of", rates_of(optimizer.lr_of)},
      {"momentum", reads.momentum.has_value() ? Json(optimizer.momentum) : Json()},
      {"nesterov", optimizer.nesterov},
      {"betas", reads.betas.has_value() ? Json::array({optimizer.beta1, optimizer.beta2}) : Json()},
      {"eps", reads.eps.has_value() ? Json(optimizer.eps) : Json()},
      {"weight_decay", optimizer.weight_decay},
      {"optimizer_state", name_of(optimizer.state_dtype)},
      {"decay_matrices", optimizer.decay_matrices},
      {"accumulate", optimizer.accumulate},
      {"clip", or_null(optimizer.clip)},
      {"freeze", options.fine_tuning.freeze},
      {"label_smoothing", options.loss.label_smoothing},
      {"loss_scale", or_null(text_if_given(options.loss_scale))},
      {"seed", options.seed}};
}

Json training_fields(const train::RunOptions& options) {
  Json fields = data_fields(options);
  fields.update(step_fields(options));
  fields.update({{"augment", options.augment},
                 {"mixup", options.mix.mixup},
                 {"cutmix", options.mix.cutmix},
                 {"epochs", options.epochs},
                 {"steps", or_null(options.steps)},
                 {"weights", options.fine_tuning.weights},
                 {"head", options.fine_tuning.new_head ? Json("new") : Json()},
                 {"class_weights", options.loss.class_weights},
                 {"zero_init_residual", options.zero_init_residual},
                 {"lr_schedule", train::name_of(options.schedule.kind)},
                 {"warmup_epochs", options.schedule.warmup_epochs},
                 {"warmup_steps", or_null(options.schedule.warmup_steps)},
                 {"lr_init", options.schedule.lr_init},
                 {"lr_end", options.schedule.lr_end},
                 {"lr_gamma", options.schedule.lr_gamma},
                 {"lr_factor", options.schedule.lr_factor},
                 {"lr_patience", options.schedule.lr_patience},
                 {"lr_cooldown", options.schedule.lr_cooldown},
                 {"eval_every", or_null(options.watch.eval_every)},
                 {"ema", or_null(options.watch.ema)},
                 {"ema_warmup", options.watch.ema_warmup},
                 {"early_stop", or_null(options.watch.early_stop)},
                 {"monitor", options.watch.monitor},
                 {"shuffle", options.shuffle},
                 {"options", train::configuration_of(options)}});
  return fields;
}

Json start_event(const std::string& command, const train::RunOptions& options, const Json& own) {
  Json event = {{"event", "start"},
                {"command", command},
                {"model", options.model},
                {"level", amp::name_of(options.policy.level)},
                {"dtype", name_of(options.policy.named_dtype())},
                {"plan", or_null(plan_file_of(options))},
                {"keep_f32", options.precision.keep_float32},
                {"lower", options.precision.lower},
                {"keep_batchnorm_fp32", or_null(options.precision.keep_batchnorm_fp32)},
                {"batch_size", options.batch_size}};
  event.update(own);
  event.update({{"processes", options.process_count()},
                {"threads", num_threads()},
                {"device", concat(options.device)},
                {"tf32", is_tf32_allowed()},
                {"exact", are_sums_exact()},
                {"cpu", cpu_name()},
                {"avx512_bf16", cpu_features().avx512_bf16}});
  return event;
}

Json begin_result(const train::RunOptions& options) {
  return {{"event", "result"},
          {"model", options.model},
          {"level", amp::name_of(options.policy.level)},
          {"dtype", name_of(options.policy.named_dtype())},
          {"plan", or_null(plan_file_of(options))}};
}

Json quality_fields(const train::Evaluation& test) {
  if (test.has_accuracy()) return {{"accuracy", test.accuracy}};
  return {{"perplexity", test.perplexity()}};
}

std::string text_of(const train::Evaluation& test) {
  const double loss = without_sign(test.loss);
  if (test.has_accuracy()) {
    return fmt::format("accuracy {:.2f} %, loss {:.4f}", 100 * test.accuracy, loss);
  }
  return fmt::format("perplexity {:.2f}, loss {:.4f}", without_sign(test.perplexity()), loss);
}

std::string rate_text(double images_per_s, double tokens_per_s) {
  if (tokens_per_s > 0) return fmt::format("{:.0f} tokens/s", tokens_per_s);
  return fmt::format("{:.0f} images/s", images_per_s);
}

Json result_event(const train::RunOptions& options, const Measured& measured, const Json& own) {
  Json event = begin_result(options);
  event["batch_size"] = options.batch_size;
  event["step_ms_median"] = measured.step_ms_median;
  event["images_per_s"] = measured.images_per_s;
  event["peak_bytes"] = measured.peak_bytes;
  event["skipped_steps"] = measured.skipped_steps;
  event.update(own);
  if (!measured.test.has_value()) {
    event["accuracy"] = event["loss"] = Json();
    return event;
  }
  event.update(quality_fields(*measured.test));
  event["loss"] = measured.test->loss;
  if (data::names_tokens(options.data)) {
    event["tokens_per_second"] = measured.tokens_per_s;
    event["test_loss"] = measured.test->loss;
  }
  return event;
}

Json result_event(const train::RunOptions& options, const train::RunResult& result,
                  bool with_data) {
  Measured measured{.step_ms_median = result.step_ms_median,
                    .images_per_s = result.images_per_s,
                    .tokens_per_s = result.tokens_per_s,
                    .peak_bytes = result.peak_bytes,
                    .skipped_steps = result.skipped_steps};
  Json own{{"steps", result.steps},
           {"step_ms_min", result.step_ms_min},
           {"step_ms_max", result.step_ms_max},
           {"forward_ms", result.forward_ms_median},
           {"backward_ms", result.backward_ms_median},
           {"update_ms", result.update_ms_median}};
  if (with_data) {
    measured.test = result.test;
    own["epochs"] = result.epochs;
    own["stopped_early"] = result.early_stop.has_value();
    own["wait_ms"] = result.wait_ms_mean;
  }
  return result_event(options, measured, own);
}

Json stopped_event(const train::RunResult& result) {
  return {{"event", "stopped"}, {"step", result.steps}};
}

}  // namespace mezzo::cli
