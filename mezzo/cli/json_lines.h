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
  // Keeps the first event of a run until there is another one: a run that is refused before its
  // first step leaves the log of an earlier one alone.
  void begin(const Json& event);
  void write(const Json& event);

 private:
  void open();
  void put(const std::string& line);

  std::string path_;
  std::ofstream file_;
  std::string first_;  // a line that waits
  bool append_ = false;
  bool is_open_ = false;
};

}  // namespace mezzo::cli
