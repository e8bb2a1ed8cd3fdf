// Networks as ONNX files, which other programs run: onnxruntime, OpenVINO, TensorRT and many more.
#pragma once

#include <string>

#include "mezzo/nn/module.h"

namespace mezzo::interchange {

struct OnnxOptions {
  DType input = DType::kF32;  // of the network's input: f32, or i64 for numbers of an embedding
};

// Writes the network as it is in inference mode, in f32 whatever its precision is set to: batch
// norm with its running statistics, without dropout. `example` is the shape of one input, [c, h,
// w]; the graph maps `input` [N, c, h, w], for any N, to `output`. Parameters keep their names.
// Opset 17, IR version 8.
//
// The graph is what the forward pass does with batches of zeros: one with other calls for other
// values or sizes cannot be exported, nor one that cuts or reduces the batch, which must be the
// first axis of the output and may lie elsewhere in between. Throws
// UnsupportedError `[export] OP in PATH: ...` for what ONNX or this exporter cannot say;
// ArgumentError if the network does not take the input; FileError if the file cannot be written,
// which happens atomically (see AtomicFile).
void export_onnx(nn::Module& net, const Shape& example, const std::string& path,
                 const OnnxOptions& options = {});

// The same into memory: the bytes of the file.
std::string serialize_onnx(nn::Module& net, const Shape& example, const OnnxOptions& options = {});

}  // namespace mezzo::interchange
