#include "mezzo/io/pickle_names.h"

#include <algorithm>
#include <iterator>

#include "mezzo/core/error.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

struct RefusedOpcode {
  std::uint8_t code;
  std::string_view name;
};

constexpr RefusedOpcode kRefusedOpcodes[] = {
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'L', "LONG"},
    {'P', "PERSID"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'g', "GET"},
    {'i', "INST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

struct KnownFunction {
  std::string_view module;
  std::string_view name;
  PickleFunction function;
};

constexpr KnownFunction kFunctions[] = {
    {"collections", "OrderedDict", PickleFunction::kOrderedDict},
    {"torch._utils", "_rebuild_tensor_v2", PickleFunction::kRebuildTensor},
    {"torch._utils", "_rebuild_parameter", PickleFunction::kRebuildParameter},
};

struct KnownStorage {
  std::string_view name;  // in the module torch
  DType dtype;
};

constexpr KnownStorage kStorages[] = {
    {"FloatStorage", DType::kF32},  {"BFloat16Storage", DType::kBf16}, {"HalfStorage", DType::kF16},
    {"DoubleStorage", DType::kF64}, {"LongStorage", DType::kI64},      {"IntStorage", DType::kI32},
    {"ByteStorage", DType::kU8},    {"BoolStorage", DType::kBool},
};

std::string known_storages() {
  std::string text;
  for (const KnownStorage& known : kStorages) {
    if (!text.empty()) text += ' ';
    text += known.name;
  }
  return text;
}

}  // namespace

std::string describe_opcode(std::uint8_t code) {
  const auto* const found = std::ranges::find(kRefusedOpcodes, code, &RefusedOpcode::code);
  if (found != std::end(kRefusedOpcodes)) return concat("the instruction ", found->name);
  return concat("the byte ", static_cast<unsigned>(code), ", which is no instruction");
}

PickleValue find_global(std::string_view source, std::string_view module, std::string_view name) {
  for (const KnownFunction& known : kFunctions) {
    if (known.module == module && known.name == name) {
      return {PickleKind::kFunction, static_cast<std::int64_t>(known.function)};
    }
  }
  const bool is_storage = module == "torch" && name.ends_with("Storage");
  const auto* const found = std::ranges::find(kStorages, name, &KnownStorage::name);
  if (is_storage && found != std::end(kStorages)) {
    return {PickleKind::kStorageClass, static_cast<std::int64_t>(found->dtype)};
  }
  const std::string whole = in_quotes(concat(module, ".", name));
  if (module == "torch._utils" && name == "_rebuild_tensor_v3") {
    fail<FileError>(kPytorchOp, source, ": it has a tensor made by ", whole,
                    ", thus of a float8 or an unsigned dtype, which mezzo does not read from this "
                    "format. Save it with safetensors.torch.save_file(), or convert the tensor");
  }
  if (is_storage) {
    fail<FileError>(kPytorchOp, source, ": it has a tensor in a ", whole, ", mezzo supports ",
                    known_storages(), ". Convert the tensor");
  }
  fail<FileError>(kPytorchOp, source, ": it refers to ", whole,
                  ", which is no part of tensors and is not executed", kSaveStateDict);
}

}  // namespace mezzo::io
