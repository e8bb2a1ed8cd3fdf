// Exports networks as ONNX files, which onnxruntime, OpenVINO, TensorRT and many other programs
// run.
#pragma once

#include <string>
#include <vector>

#include "mezzo/nn/module.h"

namespace mezzo::interchange {

struct OnnxOptions {
  DType input = DType::kF32;  // of the network's input: f32, or i64 for indices of an embedding
  // The first axis of an example, such as the length of a sequence of tokens, is open, too: the
  // graph maps [N, T] to [N, T, classes], for any T that the network takes. Give an example of five
  // at least.
  bool open_length = false;
};

// Writes the network in inference mode, in f32 whatever its precision settings: batch norm with its
// running statistics, without dropout. `example` is the shape of one input, [c, h, w]; the graph
// maps `input` [N, c, h, w], for any N, to `output`. Parameters keep their names. Opset 17, IR
// version 8.
//
// The graph is what the forward pass does with batches of zeros. A network whose calls depend on
// values or sizes cannot be exported. Nor can one that slices or reduces the batch, which must be
// the first axis of the output but may be another axis in between. An open length may be sliced
// from its beginning or its end, and reduced; the network must make as many calls for all lengths,
// so recurrent layers, which are written step by step, refuse it. Throws UnsupportedError
// `[export] OP in PATH: ...` for what ONNX or this exporter cannot express; ArgumentError if the
// network does not take the input; FileError if the file cannot be written. The file is written
// atomically (see AtomicFile).
void export_onnx(nn::Module& net, const Shape& example, const std::string& path,
                 const OnnxOptions& options = {});

// Like export_onnx(), into memory: the bytes of the file.
std::string serialize_onnx(nn::Module& net, const Shape& example, const OnnxOptions& options = {});

// One of several inputs.
struct OnnxInput {
  Shape example{};            // its shape for one example, without the batch
  DType dtype = DType::kF32;  // f32, i64, or bool for a mask
  std::string name{};         // in the graph; empty: `x0`, `x1`, ...
  bool left_out = false;      // the network gets an undefined tensor, and the graph has no input
};

// Inputs and results of a network that has several.
struct OnnxSignature {
  std::vector<OnnxInput> inputs{};
  std::vector<std::string> results{};  // their names in the graph; empty: `y0`, `y1`, ...
};

// Like export_onnx(), for a network of several inputs and results, all of which have the batch as
// their first axis. Undefined results are not in the graph, but have a place among the names.
// Throws ArgumentError, too, if a name occurs twice, or if there is not one for each result.
//
//   interchange::export_onnx(net, {.inputs = {{.example = {16}, .dtype = DType::kI64},
//                                             {.example = {3, 8, 8}, .name = "image"}},
//                                  .results = {"score", "embedding"}}, "net.onnx");
void export_onnx(nn::Module& net, const OnnxSignature& signature, const std::string& path);
std::string serialize_onnx(nn::Module& net, const OnnxSignature& signature);

}  // namespace mezzo::interchange
