// Handles failures after a command's checks.
#pragma once

#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/train/run_options.h"

namespace mezzo::cli {

// Does the work that follows the checks. A file that fails now was good before, so it is not wrong
// input (exit status 2) but a failure while running (exit status 1). Such a FileError becomes an
// Error.
template <class Work>
auto on_the_way(const Work& work) {
  try {
    return work();
  } catch (const FileError& error) {
    throw Error(error.what());
  }
}

// Does work that reads images. For an unreadable image, the FileError also gives advice, unless
// unreadable images are skipped. The work must read only images.
template <class Work>
auto with_advice_on_images(const train::RunOptions& run, const Work& work) {
  try {
    return work();
  } catch (const DiskError&) {
    throw;
  } catch (const FileError& error) {
    const bool is_image = std::string_view(error.what()).starts_with("[images] ");
    if (!is_image || run.bad_images == data::BadImages::kSkip) throw;
    throw FileError(concat(
        error.what(), run.checkpoints.folder.empty()
                          ? ". Replace the file, or leave out all such files with --bad-images skip"
                          : ". To continue with --resume, replace the file; a new run can leave "
                            "out all such files with --bad-images skip"));
  }
}

// Writes after another failure. A failure here is not reported, since one line of error is enough.
template <class Write>
void write_in_spite(const Write& write) {
  try {
    write();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace mezzo::cli
