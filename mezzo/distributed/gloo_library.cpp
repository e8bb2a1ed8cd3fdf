#include "mezzo/distributed/gloo_library.h"

#include <filesystem>
#include <string>
#include <system_error>

#include <dlfcn.h>

#include "mezzo/core/error.h"
#include "mezzo/core/shared_library.h"

namespace mezzo::distributed {
namespace {

constexpr const char* kGlooFile = "libmezzo-gloo.so";

// The folder of the program, or of the shared library, that this function is part of.
std::filesystem::path own_folder() {
  Dl_info info = {};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return {};
  // A program's name may be the one it was called by.
  std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path named = info.dli_fname != nullptr ? info.dli_fname : "";
  if (named.filename().string().starts_with("libmezzo.so")) {
    file = std::filesystem::canonical(named, error);
  }
  return file.parent_path();
}

// Beside mezzo: what is installed may be moved. A program of one's own, with mezzo within it, may
// be anywhere.
std::string gloo_folder() {
  std::error_code error;
  for (const std::filesystem::path& folder :
       {own_folder() / "mezzo", own_folder() / ".." / MEZZO_LIBRARY_FOLDER / "mezzo"}) {
    if (std::filesystem::exists(folder / kGlooFile, error)) return folder.string();
  }
  return MEZZO_FIXED_FOLDER;
}

#define MEZZO_FIND_GLOO(function) .function = library.find<decltype(&::function)>(#function)

Gloo load_gloo() {
  const SharedLibrary library(
      {.op = "distributed",
       .title = "Gloo, by which processes train together that no MPI has started,",
       .name = kGlooFile,
       .folder = gloo_folder(),
       .advice = "Install what Debian calls libgloo0, name the folder that holds libmezzo-gloo.so "
                 "in LD_LIBRARY_PATH, or start one process, without RANK and WORLD_SIZE"});
  Gloo gloo = {MEZZO_FIND_GLOO(mezzo_gloo_interface), MEZZO_FIND_GLOO(mezzo_gloo_connect),
               MEZZO_FIND_GLOO(mezzo_gloo_broadcast), MEZZO_FIND_GLOO(mezzo_gloo_all_to_all),
               MEZZO_FIND_GLOO(mezzo_gloo_all_gather)};
  const int version = gloo.mezzo_gloo_interface();
  if (version != MEZZO_GLOO_INTERFACE) {
    fail<DeviceError>("distributed", kGlooFile, " has interface ", version, ", and mezzo needs ",
                      MEZZO_GLOO_INTERFACE, ". Install both from one build");
  }
  return gloo;
}

#undef MEZZO_FIND_GLOO

}  // namespace

const Gloo& gloo() {
  static const Gloo library = load_gloo();
  return library;
}

}  // namespace mezzo::distributed
