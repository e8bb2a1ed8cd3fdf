// Fuzzes files of tokens and texts. The first byte says which, and how large the vocabulary is.
#include <algorithm>
#include <vector>

#include "mezzo/data/token_batches.h"
#include "mezzo/data/token_file.h"
#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {
namespace {

constexpr std::int64_t kVocabularies[] = {0, 3, 256, 50'257, 65'536, 128'000};

// Ten tokens of that many bytes each, all 2.
Bytes numbers(std::size_t width) {
  Bytes bytes(10 * width);
  for (std::size_t i = 0; i < bytes.size(); i += width) bytes[i] = 2;
  return bytes;
}

Bytes header() {
  Bytes bytes(1024);
  const Bytes begin{0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 10, 0, 0, 0};
  std::ranges::copy(begin, bytes.begin());
  return bytes;
}

Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Reads all of a set in sequences.
void read_set(const data::TokenSet& tokens, std::int64_t vocabulary) {
  require(tokens.size() > 0, "a set has tokens");
  std::vector<std::int64_t> all(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, all);
  const std::int64_t most = *std::ranges::max_element(all);
  require(vocabulary == 0 || most < vocabulary, "tokens are in the vocabulary");
  data::TokenBatches batches(tokens, {.batch_size = 2, .length = 3, .shuffle = false});
  for (data::Batch batch; batches.next(batch);) {
    require(batch.images.size(1) == 3, "a batch has sequences");
  }
}

}  // namespace

void read(Input input) {
  static const Folder kFolder;
  const std::uint8_t kind = input.empty() ? 0 : input[0];
  kFolder.write("tokens.bin", input.empty() ? input : input.subspan(1));
  const std::string path = kFolder.path("tokens.bin");
  const std::int64_t vocabulary = kVocabularies[kind / 2 % std::size(kVocabularies)];
  if (kind % 2 == 0) return read_set(*data::open_token_file(path, vocabulary), vocabulary);
  read_set(*data::open_text(path, data::Split::kTrain, vocabulary), vocabulary);
  read_set(*data::open_text(path, data::Split::kTest, vocabulary), vocabulary);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> files;
  for (const std::uint8_t kind : {0, 4, 10}) {
    for (const std::size_t width : {2U, 4U}) {
      files.push_back(joined(joined({kind}, header()), numbers(width)));
      // A vocabulary that is too large for u16 is stored in u32.
      if (kind < 10 || width == 4) files.push_back(joined({kind}, numbers(width)));
    }
  }
  files.push_back(joined({5}, Bytes(50, 'a')));
  return files;
}

}  // namespace mezzo::fuzz
