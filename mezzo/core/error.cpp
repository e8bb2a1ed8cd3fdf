#include "mezzo/core/error.h"

#include <cstdio>
#include <cstdlib>
#include <typeinfo>

namespace mezzo {
namespace {

// Only for exactly this type: a derived error holds more than a message.
template <class Type>
void throw_longer(const Error& error, std::string_view more) {
  if (typeid(error) == typeid(Type)) throw Type(concat(error.what(), more));
}

}  // namespace

void rethrow_with(std::string_view more) {
  try {
    throw;
  } catch (const Error& error) {
    throw_longer<ArgumentError>(error, more);
    throw_longer<UnsupportedError>(error, more);
    throw;
  }
}

}  // namespace mezzo

namespace mezzo::detail {

void invariant_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "mezzo: invariant `%s` does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace mezzo::detail
