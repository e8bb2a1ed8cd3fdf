// A reader of Graphviz's language, as far as pictures of programs use it, for tests without
// Graphviz.
#pragma once

#include <cctype>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mezzo::graph {

class DotText {
 public:
  using Attributes = std::map<std::string, std::string>;

  std::map<std::string, Attributes> nodes{};
  std::map<std::pair<std::string, std::string>, Attributes> edges{};
  std::vector<std::string> clusters{};

  // Throws std::runtime_error if the text is invalid, and for an edge between unknown nodes.
  explicit DotText(std::string text) : text_(std::move(text)) {
    expect("digraph");
    word();
    block();
    if (!peek().empty()) fail("something follows the graph");
    for (const auto& [ends, attributes] : edges) {
      if (!nodes.contains(ends.first) || !nodes.contains(ends.second)) {
        fail("an edge has no end: " + ends.first + " -> " + ends.second);
      }
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " before `" + text_.substr(at_, 40) + "`");
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  // The next word, punctuation mark or opening quote, without consuming it.
  std::string peek() {
    skip_space();
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_')) {
      ++end;
    }
    if (end > at_) return text_.substr(at_, end - at_);
    return text_.substr(at_, text_.compare(at_, 2, "->") == 0 ? 2 : 1);
  }

  std::string word() {
    const std::string token = peek();
    if (token.empty() || (std::isalnum(static_cast<unsigned char>(token[0])) == 0)) {
      fail("a name is missing");
    }
    at_ += token.size();
    return token;
  }

  bool take(std::string_view token) {
    if (peek() != token) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail(std::string(token) + " is missing");
  }

  // The contents of quotes: \" and \\ are unescaped, other escapes, such as \n, stay.
  std::string quoted() {
    std::string result;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\n') fail("a line ends within quotes");
      const bool escapes = text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escapes && text_[at_ + 1] != '"' && text_[at_ + 1] != '\\') result += '\\';
      if (escapes) ++at_;
      result += text_[at_];
    }
    if (at_ == text_.size()) fail("quotes are left open");
    ++at_;
    return result;
  }

  // Numbers may contain a point.
  std::string value() {
    if (peek() == "\"") return quoted();
    std::string result = word();
    if (take(".")) result += "." + word();
    return result;
  }

  Attributes attributes() {
    Attributes result;
    if (!take("[")) return result;
    while (!take("]")) {
      const std::string name = word();
      expect("=");
      result[name] = value();
      if (!take(",") && peek() != "]") fail("a comma is missing");
    }
    return result;
  }

  void block() {
    expect("{");
    while (!take("}")) statement();
  }

  void statement() {
    const std::string first = word();
    if (first == "subgraph") {
      clusters.push_back(word());
      block();
      return;
    }
    if (take("=")) {
      value();
    } else if (take("->")) {
      const std::string to = word();
      edges[{first, to}] = attributes();
    } else {
      const Attributes found = attributes();
      const bool is_default = first == "node" || first == "edge";
      if (!is_default && !nodes.emplace(first, found).second) fail(first + " is there twice");
    }
    expect(";");
  }

  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace mezzo::graph
