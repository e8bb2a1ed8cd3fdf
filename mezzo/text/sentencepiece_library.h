// The functions of libsentencepiece, and objects of its classes.
//
// Only those are called whose names say all of what they take, so that another version of the
// library is refused rather than misunderstood.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/shared_library.h"

namespace mezzo::text {

// A `sentencepiece::util::Status`: a pointer, which is null where all went well.
class SentencePieceStatus {
 public:
  SentencePieceStatus(const SentencePieceStatus&) = delete;
  SentencePieceStatus& operator=(const SentencePieceStatus&) = delete;
  ~SentencePieceStatus();

  bool ok() const { return content_ == nullptr; }
  std::string message() const;

 private:
  SentencePieceStatus() = default;
  void* content_ = nullptr;
};

// Memory for a `sentencepiece::SentencePieceProcessor`, of which it takes a tenth.
struct SentencePieceProcessor {
  alignas(std::max_align_t) std::array<std::byte, 1024> memory{};
};

// The functions; methods take their object first.
struct SentencePieceLibrary {
  using Processor = SentencePieceProcessor;
  using Status = SentencePieceStatus;

  // Loads the library, the first time. Throws DeviceError.
  static const SentencePieceLibrary& get();

  SharedLibrary library;
  void (*make)(Processor*) = nullptr;
  void (*destroy)(Processor*) = nullptr;
  void (*destroy_status)(Status*) = nullptr;
  const char* (*message_of_status)(const Status*) = nullptr;
  Status (*load)(Processor*, std::string_view bytes) = nullptr;
  Status (*encode)(const Processor*, std::string_view text, std::vector<int>* ids) = nullptr;
  Status (*decode)(const Processor*, const std::vector<int>& ids, std::string* text) = nullptr;
  int (*pieces)(const Processor*) = nullptr;
  int (*id_of)(const Processor*, std::string_view piece) = nullptr;
  const std::string& (*piece_of)(const Processor*, int id) = nullptr;
  int (*end_of_sentence)(const Processor*) = nullptr;
};

}  // namespace mezzo::text
