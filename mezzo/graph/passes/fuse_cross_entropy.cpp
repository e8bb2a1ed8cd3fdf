#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/affine_attrs.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/indexing_attrs.h"
#include "mezzo/ops/losses_attrs.h"

namespace mezzo::graph {
namespace {

// The gradient of the logits: node `node` computes it from `of_loss`, the gradient of the loss.
struct LogitsGrad {
  std::size_t node = kNoNode;
  ValueId of_loss = kNoValue;
};

// The pattern factor * sum(log_probabilities * target), and the nodes that compute it.
struct Loss {
  std::size_t product = kNoNode;
  ValueId logits = kNoValue;
  ValueId target = kNoValue;  // the operand of the product
  ValueId labels = kNoValue;  // class numbers, if the target is one_hot() of them
  bool by_log = false;        // log(softmax()) instead of log_softmax()
  ValueId kept = kNoValue;    // the softmax's result, which it keeps for its gradient
  double before = 1;          // the factor of the log-probabilities
  double factor = 1;          // the total factor
  Reduction reduction = Reduction::kMean;
  ValueId result = kNoValue;
  std::string path{};
  std::vector<std::size_t> parts{};  // nodes that the loss makes redundant, except for the product
  std::vector<LogitsGrad> grads{};
};

// Factors are products of a few f64 numbers, so they are compared with a tolerance.
bool is_close(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

class CrossEntropyFuser {
 public:
  explicit CrossEntropyFuser(Program& program)
      : program_(program),
        links_(program),
        memory_(program),
        is_gone_(program.nodes.size(), false) {}

  std::size_t run() {
    std::size_t count = 0;
    const std::size_t nodes = program_.nodes.size();
    for (std::size_t i = 0; i < nodes; ++i) {
      if (!is_call(node(i), ops::mul)) continue;
      std::optional<Loss> loss = match(i, 0);
      if (!loss.has_value()) loss = match(i, 1);
      if (!loss.has_value()) continue;
      replace(*loss);
      ++count;
    }
    erase_nodes(program_, is_gone_);
    return count;
  }

 private:
  const Node& node(std::size_t i) const { return program_.nodes[i]; }
  const Shape& shape(ValueId value) const { return program_.spec(value).shape; }

  // Tries operand `side` of the product as the log-probabilities.
  std::optional<Loss> match(std::size_t product, std::size_t side) const {
    Loss loss{.product = product, .target = node(product).inputs[1 - side]};
    const bool found = find_logits(loss, node(product).inputs[side]) && find_labels(loss) &&
                       find_result(loss) && find_grads(loss);
    return found ? std::optional(std::move(loss)) : std::nullopt;
  }

  // The factor of an affine without a shift, or of a division by a number.
  std::optional<double> scale_of(std::size_t i) const {
    if (i == kNoNode) return std::nullopt;
    if (is_call(node(i), ops::div_number)) return 1 / node(i).attrs.as<DivNumberAttrs>().divisor;
    if (!is_call(node(i), ops::affine)) return std::nullopt;
    const auto& attrs = node(i).attrs.as<AffineAttrs>();
    return attrs.shift == 0 ? std::optional(attrs.scale) : std::nullopt;
  }

  bool find_logits(Loss& loss, ValueId value) const {
    std::size_t reader = loss.product;
    std::size_t maker = links_.maker(value);
    // Moves one node towards the logits: the maker of `value` becomes the reader.
    const auto go_on = [&] {
      if (!links_.is_only_for(value, reader)) return false;
      loss.parts.push_back(maker);
      reader = maker;
      value = node(maker).inputs[0];
      maker = links_.maker(value);
      return true;
    };
    if (const std::optional<double> scale = scale_of(maker)) {
      loss.before = *scale;
      if (!go_on()) return false;
    }
    loss.by_log = links_.maker(value, ops::log) != kNoNode;
    if (loss.by_log && !go_on()) return false;
    const OpDef& op = loss.by_log ? ops::softmax : ops::log_softmax;
    if (links_.maker(value, op) == kNoNode) return false;
    const std::int64_t axis = node(maker).attrs.as<AxisAttrs>().axis;
    loss.kept = value;
    loss.logits = node(maker).inputs[0];
    loss.parts.push_back(maker);
    // The loss of 16-bit logits is f32, but this pattern would compute it in 16 bits.
    return shape(value).rank() == 2 && shape(value).numel() > 0 && (axis == 1 || axis == -1) &&
           program_.spec(value).dtype == DType::kF32 &&
           memory_.is_same_at(loss.logits, maker, loss.product);
  }

  bool find_labels(Loss& loss) const {
    if (shape(loss.target) != shape(loss.logits)) return false;
    loss.labels = loss.target;
    const std::size_t maker = links_.maker(loss.target, ops::one_hot);
    if (maker == kNoNode) return true;
    const ValueId labels = node(maker).inputs[0];
    if (memory_.is_same_at(labels, maker, loss.product)) loss.labels = labels;
    return true;
  }

  // Follows the product through sums, means and factors to the last scalar that is a loss.
  bool find_result(Loss& loss) const {
    const auto examples = static_cast<double>(shape(loss.logits)[0]);
    double factor = loss.before;
    ValueId value = node(loss.product).outputs[0];
    std::vector<std::size_t> parts;
    while (links_.readers(value).size() == 1 &&
           links_.is_only_for(value, links_.readers(value)[0])) {
      const std::size_t at = links_.readers(value)[0];
      const std::optional<double> scale = factor_of(at);
      if (!scale.has_value()) break;
      factor *= *scale;
      value = node(at).outputs[0];
      parts.push_back(at);
      const bool is_mean = is_close(factor, -1 / examples);
      if (shape(value).rank() != 0 || !(is_mean || is_close(factor, -1))) continue;
      loss.reduction = is_mean ? Reduction::kMean : Reduction::kSum;
      loss.factor = factor;
      loss.result = value;
      loss.path = node(at).path;
      loss.parts.insert(loss.parts.end(), parts.begin(), parts.end());
      parts.clear();
    }
    return loss.result != kNoValue;
  }

  // The factor by which the node multiplies the sum over all elements.
  std::optional<double> factor_of(std::size_t i) const {
    if (is_call(node(i), ops::sum)) return 1;
    if (!is_call(node(i), ops::mean)) return scale_of(i);
    const ValueId mean = node(i).outputs[0];
    return static_cast<double>(shape(mean).numel()) /
           static_cast<double>(shape(node(i).inputs[0]).numel());
  }

  // All readers of the softmax's result must be part of the loss or of its gradient.
  bool find_grads(Loss& loss) const {
    const OpDef& op = loss.by_log ? ops::softmax_grad : ops::log_softmax_grad;
    for (const std::size_t reader : links_.readers(loss.kept)) {
      const bool is_known = reader == loss.product || std::ranges::count(loss.parts, reader) > 0;
      if (is_known || is_quotient(loss, reader)) continue;
      if (!is_call(node(reader), op) || node(reader).inputs[1] != loss.kept) return false;
      const ValueId of_loss = grad_of_loss(loss, reader);
      if (of_loss == kNoValue) return false;
      loss.grads.push_back({reader, of_loss});
      if (loss.by_log) loss.parts.push_back(links_.maker(node(reader).inputs[0]));
    }
    return !memory_.is_returned(loss.kept);
  }

  // The gradient of log(softmax) is a division by the softmax, read only by the softmax's gradient.
  bool is_quotient(const Loss& loss, std::size_t i) const {
    if (!loss.by_log || !is_call(node(i), ops::div) || node(i).inputs[1] != loss.kept) return false;
    const std::vector<std::size_t>& readers = links_.readers(node(i).outputs[0]);
    return readers.size() == 1 && is_call(node(readers[0]), ops::softmax_grad) &&
           node(readers[0]).inputs[1] == loss.kept &&
           links_.is_only_for(node(i).outputs[0], readers[0]);
  }

  // The scalar that, broadcast over all elements and multiplied by the loss's factor and the
  // target, gives the gradient of the log-probabilities.
  ValueId grad_of_loss(const Loss& loss, std::size_t grad) const {
    ValueId value = node(grad).inputs[0];
    if (loss.by_log) {
      const std::size_t quotient = links_.maker(value, ops::div);
      if (quotient == kNoNode || !is_quotient(loss, quotient)) return kNoValue;
      value = node(quotient).inputs[0];
    }
    double factor = 1;
    bool is_spread = false;  // before the multiplication by the target
    std::size_t reader = grad;
    while (!is_spread || shape(value).rank() != 0 || !is_close(factor, loss.factor)) {
      reader = links_.maker(value);
      if (reader == kNoNode) return kNoValue;
      const Node& maker = node(reader);
      std::size_t next = 0;
      if (const std::optional<double> scale = scale_of(reader)) {
        factor *= *scale;
      } else if (!is_spread && is_call(maker, ops::mul)) {
        is_spread = true;
        next = maker.inputs[0] == loss.target ? 1 : 0;
        if (maker.inputs[1 - next] != loss.target) return kNoValue;
      } else if (!is_spread || !(is_call(maker, ops::expand) || is_call(maker, ops::reshape))) {
        return kNoValue;
      }
      value = maker.inputs[next];
    }
    const bool same = memory_.is_same_at(value, reader, grad) &&
                      memory_.is_same_at(loss.logits, loss.product, grad) &&
                      memory_.is_same_at(loss.labels, loss.product, grad);
    return same ? value : kNoValue;
  }

  void replace(const Loss& loss) {
    const CrossEntropyAttrs attrs{.reduction = loss.reduction};
    const ValueId rows =
        program_.add_result(ValueSpec::dense({shape(loss.logits)[0], 2}, DType::kF32));
    Node& product = program_.nodes[loss.product];
    product = {.op = &ops::cross_entropy,
               .attrs = attrs,
               .inputs = {loss.logits, loss.labels},
               .outputs = {loss.result, rows},
               .phase = product.phase,
               .path = loss.path};
    for (const LogitsGrad& grad : loss.grads) {
      Node& old = program_.nodes[grad.node];
      old = {.op = &ops::cross_entropy_grad,
             .attrs = attrs,
             .inputs = {grad.of_loss, loss.logits, loss.labels, rows},
             .outputs = old.outputs,
             .phase = old.phase,
             .path = old.path};
    }
    for (const std::size_t part : loss.parts) is_gone_[part] = true;
  }

  Program& program_;
  Links links_;
  MemoryUse memory_;
  std::vector<bool> is_gone_;
};

}  // namespace

std::size_t fuse_cross_entropy(Program& program) { return CrossEntropyFuser(program).run(); }

}  // namespace mezzo::graph
