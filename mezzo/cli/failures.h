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

}  // namespace mezzo::cli
