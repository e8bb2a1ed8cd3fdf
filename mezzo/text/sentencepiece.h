// Models of SentencePiece, by its library, which the first of them loads.
//
// The library is not linked. That of Debian has a protobuf of its own in it, of another version
// than the one that ONNX's library uses, and both export the same names: a program that is linked
// with both ends before it begins. Loaded so that it sees its own names first, it harms nobody.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "mezzo/text/tokenizer.h"

namespace mezzo::text {

// The tokenizer of a model, from the bytes of its file; `source` names it in errors. Throws
// FileError if they are no model, and DeviceError where the library is not installed or is one
// whose functions have other names.
std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view bytes, const std::string& source);

}  // namespace mezzo::text
