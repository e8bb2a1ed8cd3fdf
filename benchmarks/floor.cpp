// The floor of a training step: the time of its convolutions and batch norms as bare oneDNN
// primitives, each in its preferred layout, with nothing between them. A training step that takes
// much longer loses time outside its arithmetic.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <dnnl.hpp>
#include <nlohmann/json.hpp>

#include "mezzo/kernels/cpu/onednn/onednn_api.h"

namespace {

using dnnl::memory;
using mezzo::kernels::onednn::describe_gradient;
using mezzo::kernels::onednn::describe_norm;
using mezzo::kernels::onednn::describe_norm_gradient;
using mezzo::kernels::onednn::describe_primitive;
using mezzo::kernels::onednn::kNormGradientReadsShift;

struct Options {
  std::string model = "resnet50";
  std::string dtype = "f32";
  std::int64_t batch_size = 32;
  std::int64_t image_size = 224;
  int repeats = 5;
  bool layers = false;
  std::string json;
};

// One convolution shape of the network; a batch norm with ReLU follows each.
struct ConvShape {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t in_size = 0;
  int count = 1;             // how many times the network has it
  bool needs_grad_x = true;  // false for the first layer: the image's gradient is not needed

  std::int64_t padding() const { return kernel / 2; }
  std::int64_t out_size() const { return (in_size + 2 * padding() - kernel) / stride + 1; }
  bool same_as(const ConvShape& other) const {
    return in_channels == other.in_channels && out_channels == other.out_channels &&
           kernel == other.kernel && stride == other.stride && in_size == other.in_size;
  }
};

// Times in seconds, of one layer or summed over the network.
struct Times {
  double conv_forward = 0;
  double conv_backward_data = 0;
  double conv_backward_weights = 0;
  double norm_forward = 0;
  double norm_backward = 0;

  double total() const {
    return conv_forward + conv_backward_data + conv_backward_weights + norm_forward + norm_backward;
  }
  void add(const Times& other, int count) {
    conv_forward += count * other.conv_forward;
    conv_backward_data += count * other.conv_backward_data;
    conv_backward_weights += count * other.conv_backward_weights;
    norm_forward += count * other.norm_forward;
    norm_backward += count * other.norm_backward;
  }
};

struct ResNet {
  std::vector<int> blocks;  // per stage
  bool bottleneck = false;
};

const std::map<std::string, ResNet>& resnets() {
  static const std::map<std::string, ResNet> table{
      {"resnet18", {{2, 2, 2, 2}, false}},
      {"resnet34", {{3, 4, 6, 3}, false}},
      {"resnet50", {{3, 4, 6, 3}, true}},
      {"resnet101", {{3, 4, 23, 3}, true}},
  };
  return table;
}

// The network's convolutions, in order of first use.
class ConvList {
 public:
  // Appends a convolution and returns the size of its output.
  std::int64_t add(const ConvShape& shape) {
    for (ConvShape& known : shapes_) {
      if (known.same_as(shape)) {
        ++known.count;
        return known.out_size();
      }
    }
    shapes_.push_back(shape);
    return shape.out_size();
  }
  const std::vector<ConvShape>& shapes() const { return shapes_; }

 private:
  std::vector<ConvShape> shapes_;
};

// Adds one residual block; returns the size of its output.
std::int64_t add_block(ConvList& list, bool bottleneck, std::int64_t in_channels,
                       std::int64_t width, std::int64_t stride, std::int64_t size) {
  const std::int64_t out_channels = bottleneck ? 4 * width : width;
  if (stride != 1 || in_channels != out_channels) {
    list.add({in_channels, out_channels, 1, stride, size});  // the shortcut
  }
  if (bottleneck) {
    list.add({in_channels, width, 1, 1, size});
    const std::int64_t out_size = list.add({width, width, 3, stride, size});
    return list.add({width, out_channels, 1, 1, out_size});
  }
  const std::int64_t out_size = list.add({in_channels, width, 3, stride, size});
  return list.add({width, width, 3, 1, out_size});
}

std::vector<ConvShape> conv_shapes(const ResNet& net, std::int64_t image_size) {
  ConvList list;
  std::int64_t size = list.add({3, 64, 7, 2, image_size, 1, false});
  size = (size + 2 - 3) / 2 + 1;  // max pooling, 3x3, stride 2, padding 1
  std::int64_t channels = 64;
  std::int64_t width = 64;
  for (std::size_t stage = 0; stage < net.blocks.size(); ++stage, width *= 2) {
    for (int block = 0; block < net.blocks[stage]; ++block) {
      const std::int64_t stride = (block == 0 && stage > 0) ? 2 : 1;
      size = add_block(list, net.bottleneck, channels, width, stride, size);
      channels = net.bottleneck ? 4 * width : width;
    }
  }
  return list.shapes();
}

using Args = std::vector<std::pair<int, memory>>;

// Builds and times the primitives of one layer at a time.
class LayerTimer {
 public:
  LayerTimer(memory::data_type dtype, std::int64_t batch_size, int repeats)
      : dtype_(dtype), batch_size_(batch_size), repeats_(repeats) {}

  Times time(const ConvShape& shape) {
    Times times;
    time_conv(shape, times);
    time_norm(shape, times);
    return times;
  }

 private:
  memory::desc activation(std::int64_t channels, std::int64_t size) const {
    return {{batch_size_, channels, size, size}, dtype_, memory::format_tag::nhwc};
  }

  // A buffer of small, equal, normal values: every byte is 0x3c, which is about 0.0115 in both f32
  // and bf16. Fresh pages, denormals or NaN would change the times.
  memory buffer(const memory::desc& desc) const {
    memory result(desc, engine_);
    std::memset(result.get_data_handle(), 0x3c, desc.get_size());
    return result;
  }

  // Median seconds of one execution.
  double run(const dnnl::primitive& primitive, const Args& args) {
    const std::unordered_map<int, memory> map(args.begin(), args.end());
    std::vector<double> seconds;
    for (int i = 0; i <= repeats_; ++i) {
      const auto start = std::chrono::steady_clock::now();
      primitive.execute(stream_, map);
      stream_.wait();
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (i > 0) seconds.push_back(passed.count());  // the first one warms up
    }
    std::sort(seconds.begin(), seconds.end());
    const std::size_t half = seconds.size() / 2;
    return seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
  }

  void time_conv(const ConvShape& shape, Times& times) {
    const memory::dims weight_dims{shape.out_channels, shape.in_channels, shape.kernel,
                                   shape.kernel};
    const memory::dims strides{shape.stride, shape.stride};
    const memory::dims padding_left{shape.padding(), shape.padding()};
    // oneDNN derives no padding: the right padding must give exactly the output size.
    const std::int64_t right =
        (shape.out_size() - 1) * shape.stride + shape.kernel - shape.in_size - shape.padding();
    const memory::dims padding_right{right, right};
    const memory::desc x = activation(shape.in_channels, shape.in_size);
    const memory::desc y = activation(shape.out_channels, shape.out_size());
    const memory::desc w(weight_dims, dtype_, memory::format_tag::any);
    // Parameter gradients are f32 whatever the activations are; the primitive writes them as f32.
    const memory::desc grad_w(weight_dims, memory::data_type::f32, memory::format_tag::any);
    const auto direct = dnnl::algorithm::convolution_direct;

    using Forward = dnnl::convolution_forward;
    const auto forward =
        describe_primitive<Forward>(engine_, {}, dnnl::prop_kind::forward_training, direct, x, w, y,
                                    strides, padding_left, padding_right);
    const memory x_buffer = buffer(x);
    const memory y_buffer = buffer(y);
    times.conv_forward = run(Forward(forward), {{DNNL_ARG_SRC, x_buffer},
                                                {DNNL_ARG_WEIGHTS, buffer(forward.weights_desc())},
                                                {DNNL_ARG_DST, y_buffer}});
    if (shape.needs_grad_x) {
      using BackwardData = dnnl::convolution_backward_data;
      const auto data = describe_gradient<BackwardData>(engine_, {}, forward, direct, x, w, y,
                                                        strides, padding_left, padding_right);
      times.conv_backward_data =
          run(BackwardData(data), {{DNNL_ARG_DIFF_DST, y_buffer},
                                   {DNNL_ARG_WEIGHTS, buffer(data.weights_desc())},
                                   {DNNL_ARG_DIFF_SRC, x_buffer}});
    }
    using BackwardWeights = dnnl::convolution_backward_weights;
    const auto weights = describe_gradient<BackwardWeights>(
        engine_, {}, forward, direct, x, grad_w, y, strides, padding_left, padding_right);
    times.conv_backward_weights = run(
        BackwardWeights(weights), {{DNNL_ARG_SRC, x_buffer},
                                   {DNNL_ARG_DIFF_DST, y_buffer},
                                   {DNNL_ARG_DIFF_WEIGHTS, buffer(weights.diff_weights_desc())}});
  }

  void time_norm(const ConvShape& shape, Times& times) {
    const memory::desc x = activation(shape.out_channels, shape.out_size());
    const memory::desc channel({shape.out_channels}, memory::data_type::f32, memory::format_tag::a);
    using Flags = dnnl::normalization_flags;
    const Flags flags = Flags::use_scale | Flags::use_shift | Flags::fuse_norm_relu;
    constexpr float kEps = 1e-5F;

    using Forward = dnnl::batch_normalization_forward;
    using Backward = dnnl::batch_normalization_backward;
    const auto forward = describe_norm(engine_, dnnl::prop_kind::forward_training, x, kEps, flags);
    const auto backward = describe_norm_gradient(engine_, forward, x, kEps, flags);
    const memory x_buffer = buffer(x);
    const memory mean = buffer(channel);
    const memory variance = buffer(channel);
    const memory scale = buffer(channel);
    const memory shift = buffer(channel);
    const memory workspace = buffer(forward.workspace_desc());
    times.norm_forward = run(Forward(forward), {{DNNL_ARG_SRC, x_buffer},
                                                {DNNL_ARG_DST, buffer(x)},
                                                {DNNL_ARG_MEAN, mean},
                                                {DNNL_ARG_VARIANCE, variance},
                                                {DNNL_ARG_SCALE, scale},
                                                {DNNL_ARG_SHIFT, shift},
                                                {DNNL_ARG_WORKSPACE, workspace}});
    Args arguments{{DNNL_ARG_SRC, x_buffer},
                   {DNNL_ARG_DIFF_DST, buffer(x)},
                   {DNNL_ARG_DIFF_SRC, buffer(x)},
                   {DNNL_ARG_MEAN, mean},
                   {DNNL_ARG_VARIANCE, variance},
                   {DNNL_ARG_SCALE, scale},
                   {DNNL_ARG_WORKSPACE, workspace},
                   {DNNL_ARG_DIFF_SCALE, buffer(channel)},
                   {DNNL_ARG_DIFF_SHIFT, buffer(channel)}};
    if (kNormGradientReadsShift) arguments.emplace_back(DNNL_ARG_SHIFT, shift);
    times.norm_backward = run(Backward(backward), arguments);
  }

  memory::data_type dtype_;
  std::int64_t batch_size_;
  int repeats_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

void print_layer(const ConvShape& shape, const Times& times) {
  std::printf(
      "%dx conv %4ld -> %4ld, %ldx%ld / %ld, on %3ld: forward %7.2f  data %7.2f"
      "  weights %7.2f  norm %6.2f + %6.2f ms\n",
      shape.count, shape.in_channels, shape.out_channels, shape.kernel, shape.kernel, shape.stride,
      shape.in_size, 1e3 * times.conv_forward, 1e3 * times.conv_backward_data,
      1e3 * times.conv_backward_weights, 1e3 * times.norm_forward, 1e3 * times.norm_backward);
}

void print_summary(const Options& options, const Times& sum) {
  std::printf(
      "floor %s %s, batch %ld, %ldx%ld: %.3f s (conv forward %.3f, backward data %.3f, "
      "backward weights %.3f; norm forward %.3f, backward %.3f)\n",
      options.model.c_str(), options.dtype.c_str(), options.batch_size, options.image_size,
      options.image_size, sum.total(), sum.conv_forward, sum.conv_backward_data,
      sum.conv_backward_weights, sum.norm_forward, sum.norm_backward);
}

void write_json(const Options& options, const Times& sum) {
  const nlohmann::ordered_json line{
      {"event", "result"},
      {"program", "floor"},
      {"model", options.model},
      {"dtype", options.dtype},
      {"batch_size", options.batch_size},
      {"image_size", options.image_size},
      {"repeats", options.repeats},
      {"seconds", sum.total()},
      {"conv_forward_s", sum.conv_forward},
      {"conv_backward_data_s", sum.conv_backward_data},
      {"conv_backward_weights_s", sum.conv_backward_weights},
      {"norm_forward_s", sum.norm_forward},
      {"norm_backward_s", sum.norm_backward},
  };
  std::ofstream file(options.json);
  file << line.dump() << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + options.json);
}

void measure(const Options& options) {
  const auto dtype = options.dtype == "bf16" ? memory::data_type::bf16 : memory::data_type::f32;
  LayerTimer timer(dtype, options.batch_size, options.repeats);
  Times sum;
  for (const ConvShape& shape : conv_shapes(resnets().at(options.model), options.image_size)) {
    const Times times = timer.time(shape);
    if (options.layers) print_layer(shape, times);
    sum.add(times, shape.count);
  }
  print_summary(options, sum);
  if (!options.json.empty()) write_json(options, sum);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times the convolutions and batch norms of a ResNet as bare oneDNN primitives.");
  app.add_option("--model", options.model, "the network")
      ->check(CLI::IsMember(resnets()))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "dtype of activations and weights")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "images per step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--image-size", options.image_size, "height and width of an image")
      ->check(CLI::Range(32, 1024))
      ->capture_default_str();
  app.add_option("--repeats", options.repeats,
                 "timed runs per primitive, of which the median is reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--layers", options.layers, "print every layer");
  app.add_option("--json", options.json, "write the result to this file as a JSON line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    measure(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mezzo_floor: %s\n", error.what());
    return 1;
  }
  return 0;
}
