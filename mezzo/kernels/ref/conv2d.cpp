#include <algorithm>
#include <vector>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/conv2d_attrs.h"

// f64 networks compute with these loops. Elements are independent of each other, so threads share
// them, and the innermost loops go along rows; each element is still the sum of its products in the
// order of the definition.
namespace mezzo::kernels::ref {
namespace {

// The positions of a kernel's weight along one axis of the output, [begin, end), at which it meets
// the image, and the image's position at output 0.
struct Reach {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t first = 0;
  std::int64_t stride = 1;

  Reach(std::int64_t image, std::int64_t out, std::int64_t offset, std::int64_t step)
      : first(offset), stride(step) {
    begin = std::clamp<std::int64_t>((-offset + step - 1) / step, 0, out);
    if (offset >= 0) begin = 0;
    end = offset < image ? std::clamp<std::int64_t>((image - 1 - offset) / step + 1, begin, out)
                         : begin;
  }
  std::int64_t at(std::int64_t i) const { return first + i * stride; }
};

// A convolution of x [n, channels, h, w] with weight [outputs, channels / groups, kh, kw] to
// out [n, outputs, oh, ow].
class Windows {
 public:
  Windows(const Shape& x, const Shape& weight, const Shape& out, const Conv2dAttrs& attrs)
      : x_(x), weight_(weight), out_(out), attrs_(attrs) {}

  std::int64_t group_outputs() const { return weight_[0] / attrs_.groups; }
  std::int64_t first_channel(std::int64_t output) const {
    return output / group_outputs() * weight_[1];
  }
  Reach rows(std::int64_t kh) const {
    return {x_[2], out_[2], kh * attrs_.dilation.h - attrs_.padding.top, attrs_.stride.h};
  }
  Reach columns(std::int64_t kw) const {
    return {x_[3], out_[3], kw * attrs_.dilation.w - attrs_.padding.left, attrs_.stride.w};
  }
  const Shape& x() const { return x_; }
  const Shape& weight() const { return weight_; }
  const Shape& out() const { return out_; }
  std::int64_t image_plane() const { return x_[2] * x_[3]; }
  std::int64_t out_plane() const { return out_[2] * out_[3]; }
  std::int64_t weight_place(std::int64_t o, std::int64_t c, std::int64_t kh,
                            std::int64_t kw) const {
    return ((o * weight_[1] + c) * weight_[2] + kh) * weight_[3] + kw;
  }

 private:
  Shape x_;
  Shape weight_;
  Shape out_;
  Conv2dAttrs attrs_;
};

// out += weight * x for one weight and one plane of each.
void add_plane(const Windows& windows, double weight, std::int64_t kh, std::int64_t kw,
               const double* x, double* out) {
  const Reach rows = windows.rows(kh);
  const Reach columns = windows.columns(kw);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const double* from = x + rows.at(i) * windows.x()[3] + columns.first;
    double* to = out + i * windows.out()[3];
    for (std::int64_t j = columns.begin; j < columns.end; ++j) {
      to[j] += from[j * columns.stride] * weight;
    }
  }
}

// x += grad * weight, likewise.
void add_plane_back(const Windows& windows, double weight, std::int64_t kh, std::int64_t kw,
                    const double* grad, double* x) {
  const Reach rows = windows.rows(kh);
  const Reach columns = windows.columns(kw);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    double* to = x + rows.at(i) * windows.x()[3] + columns.first;
    const double* from = grad + i * windows.out()[3];
    for (std::int64_t j = columns.begin; j < columns.end; ++j) {
      to[j * columns.stride] += from[j] * weight;
    }
  }
}

// The weights of one output, in the order [kh, kw, channels]: then channels are the innermost loop.
class WeightGradient {
 public:
  WeightGradient(const Windows& windows, std::span<const double> x) : windows_(windows) {
    const Shape& shape = windows.x();
    const std::int64_t plane = windows.image_plane();
    by_pixel_.resize(x.size());
    parallel_for(shape[0] * shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t n = at / shape[1];
        const std::int64_t c = at % shape[1];
        for (std::int64_t i = 0; i < plane; ++i) {
          by_pixel_[(n * plane + i) * shape[1] + c] = x[at * plane + i];
        }
      }
    });
  }

  void compute(std::int64_t output, const double* grad, double* weight) const {
    const Shape& kernel = windows_.weight();
    std::vector<double> sums(kernel[1] * kernel[2] * kernel[3], 0);
    const std::int64_t plane = windows_.out_plane();
    for (std::int64_t n = 0; n < windows_.x()[0]; ++n) {
      add_image(n, output, grad + (n * windows_.out()[1] + output) * plane, sums);
    }
    for (std::int64_t c = 0; c < kernel[1]; ++c) {
      for (std::int64_t k = 0; k < kernel[2] * kernel[3]; ++k) {
        weight[(output * kernel[1] + c) * kernel[2] * kernel[3] + k] = sums[k * kernel[1] + c];
      }
    }
  }

 private:
  void add_image(std::int64_t n, std::int64_t output, const double* grad,
                 std::vector<double>& sums) const {
    const Shape& kernel = windows_.weight();
    const Shape& x = windows_.x();
    const double* image =
        by_pixel_.data() + n * windows_.image_plane() * x[1] + windows_.first_channel(output);
    for (std::int64_t kh = 0; kh < kernel[2]; ++kh) {
      const Reach rows = windows_.rows(kh);
      for (std::int64_t kw = 0; kw < kernel[3]; ++kw) {
        const Reach columns = windows_.columns(kw);
        double* sum = sums.data() + (kh * kernel[3] + kw) * kernel[1];
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            const double g = grad[i * windows_.out()[3] + j];
            const double* pixel = image + (rows.at(i) * x[3] + columns.at(j)) * x[1];
            for (std::int64_t c = 0; c < kernel[1]; ++c) sum[c] += g * pixel[c];
          }
        }
      }
    }
  }

  const Windows& windows_;
  std::vector<double> by_pixel_;  // x as [n, h, w, channels]
};

}  // namespace

extern const RefKernel conv2d = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& weight = args.inputs[1];
  const RefTensor& out = args.outputs[0];
  const Windows windows(x.shape, weight.shape, out.shape, args.attrs<Conv2dAttrs>());
  const std::int64_t plane = windows.out_plane();
  parallel_for(out.shape[0] * out.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t n = at / out.shape[1];
      const std::int64_t o = at % out.shape[1];
      std::fill_n(out.data + at * plane, plane, args.has(2) ? args.inputs[2][o] : 0);
      for (std::int64_t c = 0; c < weight.shape[1]; ++c) {
        const std::int64_t channel = windows.first_channel(o) + c;
        const double* image = x.data + (n * x.shape[1] + channel) * windows.image_plane();
        for (std::int64_t kh = 0; kh < weight.shape[2]; ++kh) {
          for (std::int64_t kw = 0; kw < weight.shape[3]; ++kw) {
            add_plane(windows, weight[windows.weight_place(o, c, kh, kw)], kh, kw, image,
                      out.data + at * plane);
          }
        }
      }
    }
  });
};

extern const RefKernel conv2d_grad_input = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& weight = args.inputs[1];
  const RefTensor& x = args.outputs[0];
  const Windows windows(x.shape, weight.shape, grad.shape, args.attrs<Conv2dGradAttrs>().conv);
  const std::int64_t plane = windows.image_plane();
  parallel_for(x.shape[0] * x.shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t n = at / x.shape[1];
      const std::int64_t channel = at % x.shape[1];
      const std::int64_t first = channel / weight.shape[1] * windows.group_outputs();
      const std::int64_t c = channel % weight.shape[1];
      std::fill_n(x.data + at * plane, plane, 0);
      for (std::int64_t o = first; o < first + windows.group_outputs(); ++o) {
        const double* from = grad.data + (n * grad.shape[1] + o) * windows.out_plane();
        // Backwards, so that each pixel gets its products in the order of the output's pixels.
        for (std::int64_t kh = weight.shape[2]; kh-- > 0;) {
          for (std::int64_t kw = weight.shape[3]; kw-- > 0;) {
            add_plane_back(windows, weight[windows.weight_place(o, c, kh, kw)], kh, kw, from,
                           x.data + at * plane);
          }
        }
      }
    }
  });
};

extern const RefKernel conv2d_grad_weight = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.inputs[1];
  const RefTensor& weight = args.outputs[0];
  const Windows windows(x.shape, weight.shape, grad.shape, args.attrs<Conv2dGradAttrs>().conv);
  const WeightGradient gradient(windows, x.values());
  parallel_for(weight.shape[0], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) gradient.compute(o, grad.data, weight.data);
  });
};

}  // namespace mezzo::kernels::ref
