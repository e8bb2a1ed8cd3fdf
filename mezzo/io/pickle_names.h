// The instructions of pickles, and the functions and classes that a state dict may name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mezzo/io/pickle.h"

namespace mezzo::io {

// The instructions that the machine follows, by their names in Python.
enum class Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kBinFloat = 'G',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// `the instruction NEWOBJ` or `the byte 255, which is no instruction`, for messages. For those that
// the machine does not follow.
std::string describe_opcode(std::uint8_t code);

// The function or class that Python calls MODULE.NAME. Throws FileError `[pytorch] SOURCE: ...` for
// all that state dicts do not need, and for storages of dtypes that mezzo does not have.
PickleValue find_global(std::string_view source, std::string_view module, std::string_view name);

}  // namespace mezzo::io
