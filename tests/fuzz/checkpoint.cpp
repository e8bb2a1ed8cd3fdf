// Fuzzes the manifest of an otherwise sound checkpoint. The checksum of each input is corrected
// before it is read, since nothing would get past it otherwise.
#include "mezzo/io/checkpoint.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/io/checkpoint_folder.h"
#include "mezzo/io/checkpoint_manifest.h"
#include "mezzo/io/crc32c.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/run.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/samples.h"

namespace mezzo::fuzz {
namespace {

// The position of the checksum's digits in a manifest.
constexpr std::size_t kDigitsAt = std::string_view("{\n  \"checksum\": \"crc32c:").size();
constexpr std::size_t kDigits = 8;

io::Checkpoint sample() {
  io::Checkpoint checkpoint{.step = 7, .score = 0.5};
  checkpoint.groups = {{"model", tensors_of_all_dtypes()}, {"optimizer", {}}};
  checkpoint.random["default"] = {1, 2};
  checkpoint.values["loader"] = {{"epoch", std::int64_t{1}}, {"step", std::int64_t{2}}};
  checkpoint.values["scaler"] = {{"scale", 65536.0}, {"on", true}};
  train::add_configuration(checkpoint, train::configuration_of(train::RunOptions{}));
  return checkpoint;
}

// A folder with one checkpoint, whose manifest will be replaced.
struct Place {
  Place() : name(std::filesystem::path(io::write_checkpoint(folder.path(), sample())).filename()) {}
  Folder folder;
  std::string name;
};

const Place& place() {
  static const Place kPlace;
  return kPlace;
}

std::string with_checksum(std::string_view text) {
  std::string fixed(text);
  if (fixed.size() < kDigitsAt + kDigits) return fixed;
  fixed.replace(kDigitsAt, kDigits, kDigits, '0');
  char digits[kDigits] = {};
  const auto end = std::to_chars(digits, digits + kDigits, io::crc32c(fixed), 16).ptr;
  const auto count = static_cast<std::size_t>(end - digits);
  return fixed.replace(kDigitsAt + kDigits - count, count, digits, count);
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

void read(Input input) {
  const std::string text = with_checksum(text_of(input));
  const io::Manifest manifest =
      io::parse_manifest("input", text);  // writes files only if this is sound
  const std::string written = io::format_manifest(manifest);
  require(io::format_manifest(io::parse_manifest("written", written)) == written,
          "a manifest comes back");
  place().folder.write(concat(place().name, "/", io::kManifestName), bytes_of(text));
  static_cast<void>(io::list_checkpoints(place().folder.path()));
  const io::Checkpoint checkpoint = io::read_checkpoint(place().folder.path(place().name));
  train::check_configuration(checkpoint, train::configuration_of(train::RunOptions{}));
}

std::vector<Bytes> seeds() {
  const Place own;
  const std::string text = file_text(own.folder.path(concat(own.name, "/", io::kManifestName)));
  io::Manifest other = io::parse_manifest("seed", text);
  other.checkpoint.score.reset();
  other.checkpoint.values["numbers"] = {{"infinite", -std::numeric_limits<double>::infinity()},
                                        {"negative", std::int64_t{-1}}};
  return {bytes_of(text), bytes_of(io::format_manifest(other))};
}

}  // namespace mezzo::fuzz
