#include "mezzo/io/pickle.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/little_endian.h"
#include "mezzo/io/pickle_names.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

constexpr std::uint8_t kOldestProtocol = 2;
constexpr std::uint8_t kNewestProtocol = 5;

// The machine. Each instruction makes at most one value, so that its memory is bounded by the
// number of bytes. Nothing in it is recursive: a list may contain itself.
class PickleMachine {
 public:
  PickleMachine(std::string_view source, std::span<const std::byte> bytes)
      : source_(source), bytes_(bytes) {}

  Pickle run() {
    if (next() != static_cast<std::uint8_t>(Opcode::kProto)) damaged("does not begin with PROTO");
    check_protocol();
    for (;;) {
      const std::uint8_t code = next();
      const auto opcode = static_cast<Opcode>(code);
      if (opcode == Opcode::kStop) return finish();
      if (!push_number(opcode) && !push_text(opcode) && !push_items(opcode) && !extend(opcode) &&
          !remember(opcode) && !call(opcode)) {
        fail<FileError>(kPytorchOp, source_, ": at byte ", at_ - 1, ", its pickle has ",
                        describe_opcode(code), ", which no dict of tensors needs", kSaveStateDict);
      }
    }
  }

 private:
  // What is wrong, after `its pickle`.
  template <class... Parts>
  [[noreturn]] void damaged(const Parts&... parts) const {
    fail<FileError>(kPytorchOp, source_, ": its pickle ", parts..., ", at byte ", at_, " of ",
                    bytes_.size(), kCopyAgain);
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) damaged("ends within a value of ", count, " bytes");
    const auto* const first = reinterpret_cast<const char*>(bytes_.data() + at_);
    at_ += count;
    return {first, count};
  }

  template <class Number>
  Number take_number() {
    return number_at<Number>(std::as_bytes(std::span(take(sizeof(Number)))), 0);
  }

  std::uint8_t next() { return take_number<std::uint8_t>(); }

  std::string_view take_line() {
    std::size_t end = at_;
    while (end < bytes_.size() && bytes_[end] != std::byte{'\n'}) ++end;
    const std::string_view line = take(end - at_);
    take(1);
    return line;
  }

  void push(PickleKind kind, std::int64_t number = 0) { stack_.push_back({kind, number}); }

  // The value at the top, which must not lie below the newest mark.
  PickleValue pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged("takes a value of none");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }

  // The values above the newest mark, which goes with them.
  std::vector<PickleValue> pop_mark() {
    if (marks_.empty()) damaged("takes a mark of none");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }

  PickleValue pop(PickleKind kind) {
    const PickleValue value = pop();
    if (!value.is(kind)) damaged("has ", describe(value.kind), " in place of ", describe(kind));
    return value;
  }

  void push_list(PickleKind kind, std::vector<PickleValue> values) {
    push(kind, static_cast<std::int64_t>(pickle_.lists.size()));
    pickle_.lists.push_back(std::move(values));
  }

  std::vector<PickleValue>& list_of(PickleValue value) {
    return pickle_.lists[static_cast<std::size_t>(value.number)];
  }

  void check_protocol() {
    const std::uint8_t protocol = next();
    if (protocol >= kOldestProtocol && protocol <= kNewestProtocol) return;
    fail<FileError>(kPytorchOp, source_, ": it is pickled by protocol ",
                    static_cast<unsigned>(protocol), ", mezzo reads ",
                    static_cast<unsigned>(kOldestProtocol), " to ",
                    static_cast<unsigned>(kNewestProtocol),
                    ". Save it again with torch.save() and no pickle_protocol");
  }

  Pickle finish() {
    pickle_.result = pop();
    if (!stack_.empty()) damaged("ends with ", stack_.size() + 1, " values, expected one");
    if (at_ != bytes_.size()) damaged("goes on after its end");
    return std::move(pickle_);
  }

  // The numbers of an instruction: two's complement, little-endian, of any length.
  void push_long(std::uint64_t size) {
    const std::string_view digits = take(size);
    if (size > sizeof(std::int64_t)) return push(PickleKind::kNumber);
    std::uint64_t number = !digits.empty() && (digits.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) {
      number = number << 8 | static_cast<unsigned char>(digits[i]);
    }
    push(PickleKind::kInt, static_cast<std::int64_t>(number));
  }

  bool push_number(Opcode opcode) {
    switch (opcode) {
      case Opcode::kNone: push(PickleKind::kNone); break;
      case Opcode::kNewTrue: push(PickleKind::kBool, 1); break;
      case Opcode::kNewFalse: push(PickleKind::kBool, 0); break;
      case Opcode::kBinInt: push(PickleKind::kInt, take_number<std::int32_t>()); break;
      case Opcode::kBinInt1: push(PickleKind::kInt, next()); break;
      case Opcode::kBinInt2: push(PickleKind::kInt, take_number<std::uint16_t>()); break;
      case Opcode::kLong1: push_long(next()); break;
      case Opcode::kLong4: push_long(take_number<std::uint32_t>()); break;
      case Opcode::kBinFloat:
        take(sizeof(double));
        push(PickleKind::kNumber);
        break;
      default: return false;
    }
    return true;
  }

  bool push_text(Opcode opcode) {
    std::uint64_t size = 0;
    switch (opcode) {
      case Opcode::kShortBinUnicode: size = next(); break;
      case Opcode::kBinUnicode: size = take_number<std::uint32_t>(); break;
      case Opcode::kBinUnicode8: size = take_number<std::uint64_t>(); break;
      default: return false;
    }
    const std::string_view text = take(size);
    check_utf8(text);
    push(PickleKind::kText, static_cast<std::int64_t>(pickle_.texts.size()));
    pickle_.texts.push_back(text);
    return true;
  }

  void check_utf8(std::string_view text) const {
    if (find_invalid_utf8(text) != std::string_view::npos) {
      damaged("has a text that is not UTF-8: ", in_quotes(escape_invalid_utf8(text)));
    }
  }

  bool push_items(Opcode opcode) {
    switch (opcode) {
      case Opcode::kMark: marks_.push_back(stack_.size()); break;
      case Opcode::kEmptyTuple: push_list(PickleKind::kTuple, {}); break;
      case Opcode::kEmptyList: push_list(PickleKind::kList, {}); break;
      case Opcode::kEmptyDict: push_list(PickleKind::kDict, {}); break;
      case Opcode::kTuple: push_list(PickleKind::kTuple, pop_mark()); break;
      case Opcode::kList: push_list(PickleKind::kList, pop_mark()); break;
      case Opcode::kDict: push_list(PickleKind::kDict, pop_pairs()); break;
      case Opcode::kTuple1: push_list(PickleKind::kTuple, pop_last(1)); break;
      case Opcode::kTuple2: push_list(PickleKind::kTuple, pop_last(2)); break;
      case Opcode::kTuple3: push_list(PickleKind::kTuple, pop_last(3)); break;
      default: return false;
    }
    return true;
  }

  std::vector<PickleValue> pop_last(std::size_t count) {
    std::vector<PickleValue> values(count);
    for (std::size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }

  std::vector<PickleValue> pop_pairs() {
    std::vector<PickleValue> values = pop_mark();
    if (values.size() % 2 != 0) damaged("has a key without a value");
    return values;
  }

  // Adds to the list or dict below the values.
  bool extend(Opcode opcode) {
    std::vector<PickleValue> values;
    PickleKind kind = PickleKind::kList;
    switch (opcode) {
      case Opcode::kAppend: values = pop_last(1); break;
      case Opcode::kAppends: values = pop_mark(); break;
      case Opcode::kSetItem:
        values = pop_last(2);
        kind = PickleKind::kDict;
        break;
      case Opcode::kSetItems:
        values = pop_pairs();
        kind = PickleKind::kDict;
        break;
      default: return false;
    }
    const PickleValue target = pop(kind);
    std::vector<PickleValue>& list = list_of(target);
    list.insert(list.end(), values.begin(), values.end());
    stack_.push_back(target);
    return true;
  }

  // The memo, by which values occur again. A sound number of a place in it is less than the number
  // of bytes, since each place takes an instruction; so the memo cannot grow beyond that.
  bool remember(Opcode opcode) {
    switch (opcode) {
      case Opcode::kBinPut: put(next()); break;
      case Opcode::kLongBinPut: put(take_number<std::uint32_t>()); break;
      case Opcode::kMemoize: put(memo_.size()); break;
      case Opcode::kBinGet: get(next()); break;
      case Opcode::kLongBinGet: get(take_number<std::uint32_t>()); break;
      case Opcode::kFrame: check_frame(take_number<std::uint64_t>()); break;
      default: return false;
    }
    return true;
  }

  void put(std::size_t place) {
    const PickleValue value = pop();
    stack_.push_back(value);
    if (place >= bytes_.size()) damaged("notes a value at the place ", place);
    if (place >= memo_.size()) memo_.resize(place + 1);
    memo_[place] = value;
  }

  void get(std::size_t place) {
    if (place >= memo_.size() || !memo_[place]) damaged("asks for the unknown place ", place);
    stack_.push_back(*memo_[place]);
  }

  void check_frame(std::uint64_t size) const {
    if (size > bytes_.size() - at_) damaged("has a frame of ", size, " bytes");
  }

  bool call(Opcode opcode) {
    switch (opcode) {
      case Opcode::kGlobal: {
        const std::string_view module = take_line();
        push_global(module, take_line());
        break;
      }
      case Opcode::kStackGlobal: {
        const PickleValue name = pop(PickleKind::kText);
        push_global(pickle_.text(pop(PickleKind::kText)), pickle_.text(name));
        break;
      }
      case Opcode::kBinPersId: push(PickleKind::kStorage, pop(PickleKind::kTuple).number); break;
      case Opcode::kReduce: reduce(); break;
      case Opcode::kBuild: build(); break;
      default: return false;
    }
    return true;
  }

  void push_global(std::string_view module, std::string_view name) {
    check_utf8(module);
    check_utf8(name);
    stack_.push_back(find_global(source_, module, name));
  }

  void reduce() {
    const PickleValue arguments = pop(PickleKind::kTuple);
    const std::span<const PickleValue> values = pickle_.items(arguments);
    switch (static_cast<PickleFunction>(pop(PickleKind::kFunction).number)) {
      case PickleFunction::kOrderedDict:
        if (!values.empty()) damaged("makes an OrderedDict of ", values.size(), " arguments");
        return push_list(PickleKind::kDict, {});
      case PickleFunction::kRebuildTensor: return push(PickleKind::kTensor, arguments.number);
      case PickleFunction::kRebuildParameter:
        if (values.size() != 3 || !values[0].is(PickleKind::kTensor)) {
          damaged("makes a parameter of something other than a tensor");
        }
        stack_.push_back(values[0]);
    }
  }

  // Attributes of an ordered dict, such as the `_metadata` of a state dict: versions of its
  // modules, which mezzo does not need.
  void build() {
    pop(PickleKind::kDict);
    stack_.push_back(pop(PickleKind::kDict));
  }

  std::string_view source_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<std::optional<PickleValue>> memo_;
  Pickle pickle_;
};

}  // namespace

std::string_view describe(PickleKind kind) {
  switch (kind) {
    case PickleKind::kNone: return "None";
    case PickleKind::kBool: return "a bool";
    case PickleKind::kInt:
    case PickleKind::kNumber: return "a number";
    case PickleKind::kText: return "a text";
    case PickleKind::kTuple: return "a tuple";
    case PickleKind::kList: return "a list";
    case PickleKind::kDict: return "a dict";
    case PickleKind::kFunction: return "a function";
    case PickleKind::kStorageClass: return "a type of storages";
    case PickleKind::kStorage: return "a storage";
    case PickleKind::kTensor: return "a tensor";
  }
  return "something else";
}

std::optional<PickleValue> Pickle::find(PickleValue dict, std::string_view key) const {
  const std::span<const PickleValue> pairs = items(dict);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    if (pairs[i].is(PickleKind::kText) && text(pairs[i]) == key) return pairs[i + 1];
  }
  return std::nullopt;
}

Pickle read_pickle(std::string_view source, std::span<const std::byte> bytes) {
  return PickleMachine(source, bytes).run();
}

}  // namespace mezzo::io
