// Logs of events.
#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace mezzo::cli {

using Json = nlohmann::ordered_json;

// A file of JSON objects, one per line, each written out at once. Does nothing without a path.
class JsonLines {
 public:
  // `append`: keep the lines that are there, but not a last one without an end. Throws FileError if
  // the file cannot be written, or exists and is no log. It stays as it is until the first line is
  // written.
  explicit JsonLines(const std::string& path, bool append = false);
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  // A new file into which nothing was written goes again.
  ~JsonLines();

  // Keeps an event that a run begins with until there is one of what it does: a run that is refused
  // before its first step leaves the log of an earlier one alone.
  void begin(const Json& event);
  void write(const Json& event);

 private:
  void put(const std::string& lines);

  std::string path_;
  std::ofstream file_;
  std::string waiting_;  // lines of begin()
  bool append_ = false;
  bool is_new_ = false;
  bool has_lines_ = false;
};

}  // namespace mezzo::cli
