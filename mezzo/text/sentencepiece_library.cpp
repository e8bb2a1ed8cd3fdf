#include "mezzo/text/sentencepiece_library.h"

#include "mezzo/text/checked_text.h"

namespace mezzo::text {
namespace {

// As g++ and clang name functions with these arguments.
#define MEZZO_SP_METHOD(name) "_ZN13sentencepiece22SentencePieceProcessor" name
#define MEZZO_SP_CONST_METHOD(name) "_ZNK13sentencepiece22SentencePieceProcessor" name
#define MEZZO_SP_VIEW "St17basic_string_viewIcSt11char_traitsIcEE"

SentencePieceLibrary open_library() {
  const SharedLibrary library({.op = std::string(kTextOp),
                               .title = "SentencePiece",
                               .name = "libsentencepiece.so.0",
                               .advice = "Install it (Debian: libsentencepiece0), or use a "
                                         "tokenizer.json",
                               .own_names_first = true});
  using Result = SentencePieceLibrary;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = library.find<Function>(name);
  };
  Result result{.library = library};
  find(result.make, MEZZO_SP_METHOD("C1Ev"));
  find(result.destroy, MEZZO_SP_METHOD("D1Ev"));
  find(result.destroy_status, "_ZN13sentencepiece4util6StatusD1Ev");
  find(result.message_of_status, "_ZNK13sentencepiece4util6Status13error_messageEv");
  find(result.load, MEZZO_SP_METHOD("23LoadFromSerializedProtoE" MEZZO_SP_VIEW));
  find(result.encode, MEZZO_SP_CONST_METHOD("6EncodeE" MEZZO_SP_VIEW "PSt6vectorIiSaIiEE"));
  find(result.decode,
       MEZZO_SP_CONST_METHOD("6DecodeERKSt6vectorIiSaIiEE"
                             "PNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"));
  find(result.pieces, MEZZO_SP_CONST_METHOD("12GetPieceSizeEv"));
  find(result.id_of, MEZZO_SP_CONST_METHOD("9PieceToIdE" MEZZO_SP_VIEW));
  find(result.piece_of, MEZZO_SP_CONST_METHOD("9IdToPieceB5cxx11Ei"));
  find(result.end_of_sentence, MEZZO_SP_CONST_METHOD("6eos_idEv"));
  return result;
}

#undef MEZZO_SP_METHOD
#undef MEZZO_SP_CONST_METHOD
#undef MEZZO_SP_VIEW

}  // namespace

const SentencePieceLibrary& SentencePieceLibrary::get() {
  static const SentencePieceLibrary kLibrary = open_library();
  return kLibrary;
}

SentencePieceStatus::~SentencePieceStatus() { SentencePieceLibrary::get().destroy_status(this); }

std::string SentencePieceStatus::message() const {
  return SentencePieceLibrary::get().message_of_status(this);
}

}  // namespace mezzo::text
