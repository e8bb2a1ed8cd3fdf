// Weights in PyTorch's own files: what torch.save(net.state_dict(), path) writes, often called
// `.pth`, `.pt` or `pytorch_model.bin`.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/named_tensor.h"

namespace mezzo::io {

// Reads the tensors of a dict of names and tensors, in its order, to the CPU wherever they were.
// If the dict has such a dict under `state_dict` or `model`, as checkpoints of trainings do, it
// gives that one, and leaves out what lies beside it. Names stay as they are.
//
// The dtypes are mezzo's: f32, bf16, f16, f64, i64, i32, u8, bool. Views of any strides become
// row-major. Names of the same view of one storage give the same tensor; other views of it are
// copies.
//
// Nothing in a file is executed, and everything is checked against its size before memory is
// allocated: the results take at most four times its bytes. Throws FileError `[pytorch] FILE: what
// is wrong: the values. What to do.` if the file is missing or damaged, if it has other objects
// than tensors, dtypes or ranks that mezzo does not support, or compressed entries; if PyTorch
// wrote it before version 1.6, or TorchScript did.
std::vector<NamedTensor> read_pytorch(const std::string& path);

// Like read_pytorch(), from memory; errors call the bytes `source`. The tensors are copies.
std::vector<NamedTensor> parse_pytorch(std::span<const std::byte> bytes,
                                       std::string_view source = "memory");

// True if the file begins like one that torch.save() writes, or wrote before PyTorch 1.6, which
// read_pytorch() refuses with what to do. False if it cannot be read.
bool is_pytorch_file(const std::string& path);

}  // namespace mezzo::io
