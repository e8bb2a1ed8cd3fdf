// Logs events as JSON lines.
#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace mezzo::cli {

using Json = nlohmann::ordered_json;

// A file of JSON objects, one per line, each written immediately. Does nothing without a path.
class JsonLines {
 public:
  // `append`: keep the existing lines, except for an unfinished last one. Throws FileError if the
  // file cannot be written, or exists and is not a log. The file does not change until the first
  // line is written.
  explicit JsonLines(const std::string& path, bool append = false);
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  // Removes a new file into which nothing was written.
  ~JsonLines();

  // Delays a start event until an event of the run's work follows: a run that is refused before its
  // first step leaves an earlier log alone.
  void begin(const Json& event);
  void write(const Json& event);

 private:
  void put(const std::string& lines);

  std::string path_;
  std::ofstream file_;
  std::string waiting_;  // lines from begin()
  bool append_ = false;
  bool is_new_ = false;
  bool has_lines_ = false;
};

}  // namespace mezzo::cli
