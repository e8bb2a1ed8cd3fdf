// The manifest of a checkpoint: the JSON file that lists what belongs to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/io/checkpoint.h"

namespace mezzo::io {

inline constexpr std::string_view kCheckpointOp = "checkpoint";  // in error messages
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::uint64_t kMaxManifest = std::uint64_t{1} << 26;

// A file of tensors beside the manifest.
struct ManifestFile {
  std::string group{};
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;             // CRC-32C of the whole file
  std::vector<std::string> names{};  // of the tensors, in order

  std::string file_name() const { return group + ".safetensors"; }
};

struct Manifest {
  Checkpoint checkpoint{};  // its groups are empty
  std::vector<ManifestFile> files{};
};

// True for valid names of groups. They become file names, so none may lead out of the folder.
bool is_group_name(std::string_view name);

// The text of a manifest file. Throws ArgumentError for names and texts that are not UTF-8.
std::string format_manifest(const Manifest& manifest);

// Parses the text of a manifest file; errors call it `source`. Throws FileError if it is not
// exactly a manifest: a wrong checksum, unknown, missing or duplicate fields, wrong types.
Manifest parse_manifest(std::string_view source, std::string_view text);

}  // namespace mezzo::io
