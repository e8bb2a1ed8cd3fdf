// Failures behind the checks of a command.
#pragma once

#include "mezzo/core/error.h"

namespace mezzo::cli {

// Does what comes behind the checks: a file that fails there was good before, and is no wrong
// input, exit status 2, but a failure on the way, exit status 1. Such a FileError becomes an Error.
template <class Work>
auto on_the_way(const Work& work) {
  try {
    return work();
  } catch (const FileError& error) {
    throw Error(error.what());
  }
}

// Behind something that failed: what fails here, too, is not said, for one line of error is enough.
template <class Write>
void write_in_spite(const Write& write) {
  try {
    write();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace mezzo::cli
