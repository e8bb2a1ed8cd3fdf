#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "mezzo/core/error.h"
#include "mezzo/io/utf8.h"
#include "mezzo/text/bpe_tokenizer.h"
#include "mezzo/text/byte_alphabet.h"
#include "mezzo/text/checked_text.h"
#include "mezzo/text/pattern.h"
#include "mezzo/text/tokenizer_json.h"

namespace mezzo::text {
namespace {

using Json = nlohmann::json;
using Ids = std::unordered_map<std::string, std::int32_t>;

constexpr std::string_view kUseAnother = ". Use another tokenizer";

// A value of the file for a message.
std::string shown(const Json& value) {
  if (value.is_string()) return io::in_quotes(value.get_ref<const std::string&>(), 60);
  return value.is_structured() ? io::in_quotes(value.dump(), 60) : value.dump();
}

// The text of a `type`, of which one value tells what the rest of an object means.
std::string type_of(const Json& value) {
  const auto found = value.is_object() ? value.find("type") : value.end();
  return value.is_object() && found != value.end() && found->is_string() ? found->get<std::string>()
                                                                         : std::string();
}

// Reads the parts of one file.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  std::unique_ptr<Tokenizer> read(const Json& file) {
    if (!file.is_object()) refuse("it is not a JSON object", kCopyAgain);
    // How a text is cut, filled up or put between tokens is a matter of what reads its numbers:
    // `truncation`, `padding` and `post_processor` do not concern the numbers of the text itself.
    check_normalizer(file);
    check_decoder(file);
    const Json& model = object_in(file, "model");
    check_model(model);
    read_vocabulary(model);
    read_bytes();
    read_merges(model);
    read_added(file);
    read_splits(file);
    return std::make_unique<BpeTokenizer>(std::move(parts_));
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail<FileError>(kTextOp, source_, ": ", parts...);
  }

  // The member of that name, or null where there is none.
  static const Json& member(const Json& object, const char* name) {
    static const Json kNothing;
    const auto found = object.find(name);
    return found != object.end() ? *found : kNothing;
  }

  const Json& object_in(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    if (!value.is_object()) refuse("`", name, "` is missing, or no object", kCopyAgain);
    return value;
  }

  const Json& list_in(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    if (!value.is_array()) refuse("`", name, "` is missing, or no list", kCopyAgain);
    return value;
  }

  // A member that is true, or false or missing.
  bool flag(const Json& object, const char* name, bool usual = false) const {
    const Json& value = member(object, name);
    if (value.is_null()) return usual;
    if (!value.is_boolean()) refuse("`", name, "` is ", shown(value), ", neither true nor false");
    return value.get<bool>();
  }

  std::string text_in(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    if (!value.is_string()) refuse("`", name, "` is missing, or no text", kCopyAgain);
    return value.get<std::string>();
  }

  void check_normalizer(const Json& file) const {
    const Json& normalizer = member(file, "normalizer");
    if (normalizer.is_null()) return;
    const std::string type = type_of(normalizer);
    refuse("its normalizer is ", type.empty() ? shown(normalizer) : type,
           ", and mezzo supports none: text would not come back as it was", kUseAnother);
  }

  void check_decoder(const Json& file) const {
    const Json& decoder = member(file, "decoder");
    if (decoder.is_null() || type_of(decoder) == "ByteLevel") return;
    refuse("its decoder is ", type_of(decoder).empty() ? shown(decoder) : type_of(decoder),
           ", mezzo supports ByteLevel", kUseAnother);
  }

  void check_model(const Json& model) const {
    if (type_of(model) != "BPE") {
      refuse("its model is ", type_of(model).empty() ? "of no type" : type_of(model),
             ", mezzo supports BPE", kUseAnother);
    }
    // Each would change which tokens a word becomes; `unk_token` and `fuse_unk` concern characters
    // that the vocabulary lacks, of which a byte-level one has none.
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& value = member(model, name);
      const bool is_nothing = value.is_null() || value == "" || (value.is_number() && value == 0);
      if (!is_nothing) refuse("its model has the ", name, " ", shown(value), kNotSupported);
    }
    if (flag(model, "byte_fallback")) refuse("its model has byte_fallback", kNotSupported);
  }

  void read_vocabulary(const Json& model) {
    const Json& vocabulary = object_in(model, "vocab");
    std::vector<std::string>& tokens = parts_.vocabulary.tokens;
    tokens.resize(vocabulary.size());
    std::vector<bool> is_taken(vocabulary.size());
    for (const auto& [token, number] : vocabulary.items()) {
      const std::int32_t id = id_in(number, token, static_cast<std::int64_t>(tokens.size()));
      const auto place = static_cast<std::size_t>(id);
      if (is_taken[place]) refuse("two tokens have the number ", id, kCopyAgain);
      is_taken[place] = true;
      ids_.emplace(token, id);
      if (std::optional<std::string> bytes = from_alphabet(token)) {
        tokens[place] = std::move(*bytes);
      } else {
        parts_.verbatim.push_back({.id = id, .text = token});
      }
    }
    parts_.vocabulary.whole_words = flag(model, "ignore_merges");
  }

  std::int32_t id_in(const Json& number, const std::string& token, std::int64_t count) const {
    const bool is_id = number.is_number_unsigned() &&
                       number.get<std::uint64_t>() < static_cast<std::uint64_t>(count);
    if (!is_id || count > kMostTokens) {
      refuse("the token ", io::in_quotes(token), " has the number ", shown(number), ", but ", count,
             " tokens have the numbers 0 to ", count - 1, ", each once", kCopyAgain);
    }
    return number.get<std::int32_t>();
  }

  void read_bytes() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char character = static_cast<char>(byte);
      const auto found = ids_.find(in_alphabet({&character, 1}));
      parts_.vocabulary.of_byte[byte] = found != ids_.end() ? found->second : -1;
      if (found == ids_.end() && !is_never_in_utf8(byte)) {
        refuse("its vocabulary has no token for the byte ", byte,
               ", so it cannot encode every text. Train it with the whole byte alphabet");
      }
    }
  }

  void read_merges(const Json& model) {
    for (const Json& entry : list_in(model, "merges")) {
      const auto [left, right] = pair_in(entry);
      parts_.vocabulary.merges.push_back({token_of_merge(left, entry), token_of_merge(right, entry),
                                          token_of_merge(left + right, entry)});
    }
  }

  // `"a b"` or `["a", "b"]`.
  std::pair<std::string, std::string> pair_in(const Json& entry) const {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      return {entry[0].get<std::string>(), entry[1].get<std::string>()};
    }
    const std::string text = entry.is_string() ? entry.get<std::string>() : std::string();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      refuse("the merge ", parts_.vocabulary.merges.size(), " is ", shown(entry),
             ", expected two tokens", kCopyAgain);
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }

  std::int32_t token_of_merge(const std::string& token, const Json& entry) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) {
      refuse("the merge ", parts_.vocabulary.merges.size(), ", ", shown(entry),
             ", needs the token ", io::in_quotes(token), ", which the vocabulary lacks",
             kCopyAgain);
    }
    return found->second;
  }

  void read_added(const Json& file) {
    const Json& added = member(file, "added_tokens");
    if (added.is_null()) return;
    std::int64_t count = static_cast<std::int64_t>(ids_.size());
    for (const Json& entry : list_in(file, "added_tokens")) {
      if (!entry.is_object()) refuse("an added token is ", shown(entry), ", no object", kCopyAgain);
      count += ids_.contains(text_in(entry, "content")) ? 0 : 1;
    }
    std::vector<bool> is_taken(static_cast<std::size_t>(count));
    for (const Json& entry : added) {
      parts_.added.push_back(added_token(entry, count));
      const AddedToken& token = parts_.added.back();
      const auto place = static_cast<std::size_t>(token.id);
      if (is_taken[place]) refuse("two added tokens have the number ", token.id, kCopyAgain);
      is_taken[place] = true;
    }
  }

  AddedToken added_token(const Json& entry, std::int64_t count) const {
    const std::string text = text_in(entry, "content");
    if (text.empty()) refuse("an added token has no text", kCopyAgain);
    for (const char* name : {"single_word", "lstrip", "rstrip"}) {
      if (flag(entry, name)) {
        refuse("the added token ", io::in_quotes(text), " has ", name, kNotSupported);
      }
    }
    const std::int32_t id = id_in(member(entry, "id"), text, count);
    const auto known = ids_.find(text);
    const bool is_right =
        known != ids_.end() ? known->second == id : id >= static_cast<std::int64_t>(ids_.size());
    if (!is_right) {
      refuse("the added token ", io::in_quotes(text), " has the number ", id,
             ", which is another token's", kCopyAgain);
    }
    // Both texts would become this token, and only one of them could come back.
    if (known != ids_.end() && from_alphabet(text).value_or(text) != text) {
      refuse("the added token ", io::in_quotes(text), " stands for other bytes in the vocabulary",
             kUseAnother);
    }
    const bool is_special = flag(entry, "special");
    return {.id = id, .text = text, .later = flag(entry, "normalized", !is_special)};
  }

  void read_splits(const Json& file) {
    const Json& splitter = member(file, "pre_tokenizer");
    if (type_of(splitter) != "Sequence") return read_byte_level(splitter);
    const Json& steps = list_in(splitter, "pretokenizers");
    if (steps.empty()) refuse("its pre_tokenizer is an empty Sequence", kUseAnother);
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) read_split(steps[i]);
    read_byte_level(steps.back());
  }

  void read_byte_level(const Json& step) {
    if (type_of(step) != "ByteLevel") {
      refuse("its pre_tokenizer is ", type_of(step).empty() ? shown(step) : type_of(step),
             ", mezzo supports ByteLevel, and a Sequence of Split and ByteLevel", kUseAnother);
    }
    if (flag(step, "add_prefix_space")) {
      refuse("its pre_tokenizer has add_prefix_space: text would not come back as it was",
             kUseAnother);
    }
    if (flag(step, "use_regex", true)) parts_.splits.emplace_back(for_pcre2(kGpt2Pattern));
  }

  void read_split(const Json& step) {
    if (type_of(step) != "Split") {
      refuse("its pre_tokenizer has ", type_of(step).empty() ? shown(step) : type_of(step),
             " before the last step, mezzo supports Split", kUseAnother);
    }
    if (text_in(step, "behavior") != "Isolated" || flag(step, "invert")) {
      refuse("its pre_tokenizer has a Split whose behavior is ", shown(step["behavior"]),
             flag(step, "invert") ? " and inverted" : "", ", mezzo supports Isolated", kUseAnother);
    }
    const Json& pattern = object_in(step, "pattern");
    const bool is_literal = pattern.contains("String");
    const std::string text = text_in(pattern, is_literal ? "String" : "Regex");
    try {
      parts_.splits.emplace_back(is_literal ? literal_for_pcre2(text) : for_pcre2(text));
    } catch (const ArgumentError& error) {
      const std::string_view why = std::string_view(error.what()).substr(kTextOp.size() + 3);
      refuse("its pre_tokenizer has the regular expression ", io::in_quotes(text, 60), ": ", why,
             kUseAnother);
    }
  }

  static constexpr std::string_view kNotSupported =
      ", which mezzo does not support. Use another tokenizer";

  std::string_view source_;
  BpeParts parts_;
  Ids ids_;  // of the vocabulary, as the file writes its tokens
};

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, std::string_view source) {
  check_utf8<FileError>(text, source);
  Json file;
  try {
    file = Json::parse(text);
  } catch (const Json::exception& error) {
    const auto* const where = dynamic_cast<const Json::parse_error*>(&error);
    fail<FileError>(kTextOp, source, ": not JSON",
                    where != nullptr ? concat(", at byte ", where->byte) : std::string(),
                    kCopyAgain);
  }
  return Reader(source).read(file);
}

}  // namespace mezzo::text
