#include "mezzo/ops/window.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/math.h"
#include "mezzo/ops/dispatcher/attrs_text.h"

namespace mezzo {

void append_text(std::string& out, Size2d size) { append_text(out, Shape{size.h, size.w}); }

void append_text(std::string& out, const Sides& sides) {
  append_text(out, Shape{sides.top, sides.bottom, sides.left, sides.right});
}

bool parse_text(std::string_view text, Size2d& size) {
  Shape numbers;
  if (!parse_text(text, numbers) || numbers.rank() != 2) return false;
  size = {numbers[0], numbers[1]};
  return true;
}

bool parse_text(std::string_view text, Sides& sides) {
  Shape numbers;
  if (!parse_text(text, numbers) || numbers.rank() != 4) return false;
  sides = {numbers[0], numbers[1], numbers[2], numbers[3]};
  return true;
}

namespace {

// Padding of one axis by TensorFlow's rule; the extra pixel is at the end.
std::pair<std::int64_t, std::int64_t> same_padding(std::int64_t in, std::int64_t span,
                                                   std::int64_t stride) {
  if (stride < 1) return {0, 0};  // output_size() reports the error
  const std::int64_t out = ceil_div(in, stride);
  const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * stride + span - in);
  return {total / 2, total - total / 2};
}

}  // namespace

Sides Padding2d::resolve(Size2d in, Size2d span, Size2d stride) const {
  if (!same_) return sides_;
  const auto [top, bottom] = same_padding(in.h, span.h, stride.h);
  const auto [left, right] = same_padding(in.w, span.w, stride.w);
  return {top, bottom, left, right};
}

void Window2d::check_numbers(std::string_view op) const {
  check_arg(kernel.h >= 1 && kernel.w >= 1, op, "the kernel must have pixels, its size is ", kernel,
            ". Use at least 1x1");
  check_arg(stride.h >= 1 && stride.w >= 1, op, "the stride must be at least 1, it is ", stride,
            ". Use 1 to take all pixels");
  check_arg(dilation.h >= 1 && dilation.w >= 1, op, "the dilation must be at least 1, it is ",
            dilation, ". Use 1 for none");
  check_arg(std::min({padding.top, padding.bottom, padding.left, padding.right}) >= 0, op,
            "the padding is negative: ", padding, ". Use slice() to cut");
  check_arg(std::max({kernel.h, kernel.w, stride.h, stride.w, dilation.h, dilation.w, padding.top,
                      padding.bottom, padding.left, padding.right}) <= kMostPixels,
            op, "a size of the window is larger than ", kMostPixels, ": kernel ", kernel,
            ", stride ", stride, ", dilation ", dilation, ", padding ", padding,
            ". Choose smaller ones");
}

Size2d Window2d::output_size(Size2d in, std::string_view op) const {
  check_numbers(op);
  const Size2d padded{in.h + padding.top + padding.bottom, in.w + padding.left + padding.right};
  const std::string spread = dilation == Size2d(1) ? "" : concat(" (dilation ", dilation, ")");
  check_arg(span().h <= padded.h && span().w <= padded.w, op, "the kernel ", kernel, spread,
            " is larger than the padded image ", padded,
            ". Use more padding, a smaller kernel or a larger image");
  return {(padded.h - span().h) / stride.h + 1, (padded.w - span().w) / stride.w + 1};
}

}  // namespace mezzo
