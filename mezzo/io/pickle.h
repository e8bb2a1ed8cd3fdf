// Python's pickles, as far as PyTorch's state dicts need them: a pickle is a program for a small
// machine with a stack, which builds dicts, lists, tuples, numbers and texts. Of the functions that
// such programs may call, the machine knows those that make tensors and ordered dicts, and notes
// the calls. It refuses all others by name. Nothing is ever executed.
//
// The instructions: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/dtype.h"

namespace mezzo::io {

inline constexpr std::string_view kPytorchOp = "pytorch";  // in error messages
// The advice where a file has more than tensors, at the end of a message.
inline constexpr std::string_view kSaveStateDict =
    ". Save the tensors alone: torch.save(net.state_dict(), path)";

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kNumber,  // a float, or an integer of more than 64 bits; its value is not kept
  kText,
  kTuple,
  kList,
  kDict,
  kFunction,      // one of PickleFunction
  kStorageClass,  // the type of a storage's elements
  kStorage,       // a storage, by the tuple that names it
  kTensor,        // a tensor, by the arguments of the call that makes it
};

enum class PickleFunction : std::uint8_t { kOrderedDict, kRebuildTensor, kRebuildParameter };

// A value. What it consists of lies in the Pickle that it belongs to.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  // Of kBool, kInt, kFunction and kStorageClass (a DType), the value; of others a place.
  std::int64_t number = 0;

  bool is(PickleKind other) const { return kind == other; }
};

// What a value is, for messages: `a number`, `a dict`.
std::string_view describe(PickleKind kind);

struct Pickle {
  PickleValue result{};
  std::vector<std::vector<PickleValue>> lists{};
  std::vector<std::string_view> texts{};  // parts of the bytes that were read; valid UTF-8

  // The elements of a tuple, list, storage or tensor; the keys and values of a dict, in turns.
  std::span<const PickleValue> items(PickleValue value) const {
    return lists[static_cast<std::size_t>(value.number)];
  }
  std::string_view text(PickleValue value) const {
    return texts[static_cast<std::size_t>(value.number)];
  }
  // The value that a dict has under that text; empty if it has none.
  std::optional<PickleValue> find(PickleValue dict, std::string_view key) const;
};

// Reads a pickle of protocol 2 to 5. Its memory is bounded by a multiple of the number of bytes,
// which must outlive the result. Throws FileError `[pytorch] SOURCE: ...` if the pickle is damaged,
// or has instructions, functions or types of storages that state dicts do not need.
Pickle read_pickle(std::string_view source, std::span<const std::byte> bytes);

}  // namespace mezzo::io
