// Exports networks as ONNX files, which onnxruntime, OpenVINO, TensorRT and many other programs
// run.
#pragma once

#include <string>

#include "mezzo/nn/module.h"

namespace mezzo::interchange {

struct OnnxOptions {
  DType input = DType::kF32;  // of the network's input: f32, or i64 for indices of an embedding
};

// Writes the network in inference mode, in f32 whatever its precision settings: batch norm with its
// running statistics, without dropout. `example` is the shape of one input, [c, h, w]; the graph
// maps `input` [N, c, h, w], for any N, to `output`. Parameters keep their names. Opset 17, IR
// version 8.
//
// The graph is what the forward pass does with batches of zeros. A network whose calls depend on
// values or sizes cannot be exported. Nor can one that slices or reduces the batch, which must be
// the first axis of the output but may be another axis in between. Throws UnsupportedError
// `[export] OP in PATH: ...` for what ONNX or this exporter cannot express; ArgumentError if the
// network does not take the input; FileError if the file cannot be written. The file is written
// atomically (see AtomicFile).
void export_onnx(nn::Module& net, const Shape& example, const std::string& path,
                 const OnnxOptions& options = {});

// Like export_onnx(), into memory: the bytes of the file.
std::string serialize_onnx(nn::Module& net, const Shape& example, const OnnxOptions& options = {});

}  // namespace mezzo::interchange
