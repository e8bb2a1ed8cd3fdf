// Libraries that are opened while the program runs.
#pragma once

#include <string>

namespace mezzo {

// A library that is opened by whoever needs it first. Programs start where it is not installed, and
// those that do not need it start without reading it. It stays open until the program ends, for its
// threads and what it does at the end may run until then.
class SharedLibrary {
 public:
  struct Options {
    std::string op;           // in whose name errors are reported
    std::string title;        // what the library is called in errors: "cuDNN"
    std::string name;         // its file, with the number of its interface: "libcudnn.so.9"
    std::string folder = {};  // where it is looked for if the system's loader does not find it
    std::string advice = {};  // what to do without it, a whole sentence without its end
    // Whether libraries that it opens itself are to see its functions.
    bool global = false;
    // Whether the library uses its own functions where the program, or what the program is linked
    // with, has others of the same names.
    bool own_names_first = false;
  };

  // Throws DeviceError with the loader's own text if there is no such library.
  explicit SharedLibrary(Options options);

  // What the library calls `name`. Throws DeviceError if it has nothing of that name.
  void* address_of(const char* name) const;

  // The same for a function, as a pointer of this type.
  template <class Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(address_of(name));
  }

 private:
  Options options_;
  void* handle_;
};

}  // namespace mezzo
