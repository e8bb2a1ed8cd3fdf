#include "mezzo/core/shared_library.h"

#include <utility>

#include <dlfcn.h>

#include "mezzo/core/error.h"

namespace mezzo {
namespace {

// What the loader said last.
std::string loader_text() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason is given";
}

void* open(const SharedLibrary::Options& options) {
  // All of its functions are bound at once: what is missing is reported here, not by the end of the
  // program.
  int flags = RTLD_NOW | (options.global ? RTLD_GLOBAL : RTLD_LOCAL);
#if defined(RTLD_DEEPBIND)
  if (options.own_names_first) flags |= RTLD_DEEPBIND;
#endif
  void* handle = dlopen(options.name.c_str(), flags);
  if (handle != nullptr) return handle;
  const std::string reason = loader_text();
  if (!options.folder.empty()) {
    handle = dlopen(concat(options.folder, "/", options.name).c_str(), flags);
  }
  if (handle == nullptr) {
    fail<DeviceError>(options.op, options.title, " could not be loaded: ", reason, ". ",
                      options.advice);
  }
  return handle;
}

}  // namespace

SharedLibrary::SharedLibrary(Options options)
    : options_(std::move(options)), handle_(open(options_)) {}

void* SharedLibrary::address_of(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) {
    fail<DeviceError>(options_.op, options_.title, " is of another version: ", options_.name,
                      " has no ", name, ". ", options_.advice);
  }
  return address;
}

}  // namespace mezzo
