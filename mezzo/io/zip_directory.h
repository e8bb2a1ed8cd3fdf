// The directory at the end of a zip archive.
#pragma once

#include <vector>

#include "mezzo/io/zip.h"

namespace mezzo::io {

// All entries, in the order of the directory. Throws FileError if there is no directory or it is
// damaged. Sizes and places of the entries are not checked.
std::vector<ZipEntry> read_zip_directory(const ZipSource& source);

}  // namespace mezzo::io
