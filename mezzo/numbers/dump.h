// Dumps: all that one training step computed, in a folder of safetensors files with an index.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/numbers/dump_index.h"
#include "mezzo/numbers/step_record.h"

namespace mezzo::numbers {

// Writes a step into a folder as it is made:
//
//   tensors-0001.safetensors ...  what calls have computed, `000012.0` for the first result of call
//                                 12; `source.3`, what the step read; `gradient.5`
//   index.json                    which call each tensor belongs to, by its module's path; where
//   its
//                                 inputs come from; what the call adds to the error by itself. It
//                                 is written last, so a folder without one is not whole.
//
//   numbers::StepDumper dump(net, "dump-100", {.step = 100});
//   amp::TrainStep step(net, loss, optimizer, scaler, {.observers = {&dump}});
//
// Gradients, and results of the backward pass, are multiplied by the loss scale, which the index
// has. Elements are row-major and in the dtypes of the computation. Throws FileError out of the
// step if something cannot be written.
class StepDumper final : public StepReader {
 public:
  struct DumpOptions {
    std::int64_t step = 1;
    std::string title{};
    std::string made_by = "mezzo";
    std::size_t file_bytes = std::size_t{256} << 20U;     // a file is closed when it has so many
    std::function<void(const StepDumper&)> on_written{};  // the dump is whole
  };

  // The network must outlive this object. Throws as check_dump_folder() does.
  StepDumper(nn::Module& net, std::string folder, const DumpOptions& options);

  const std::string& folder() const { return folder_; }
  // Of all tensors so far.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t step() const { return index_.facts.step; }

 private:
  void begin(const RecordedStep& facts) override;
  void take_source(const RecordedSource& source) override;
  void take_call(RecordedCall call) override;
  void take_gradient(const NamedTensor& gradient) override;
  void finish(const RecordedStep& facts) override;

  DumpedTensor keep(std::string name, const Tensor& tensor);
  void write_file();
  std::string path_of(const std::string& file) const { return folder_ + "/" + file; }

  std::string folder_;
  std::size_t file_bytes_;
  std::function<void(const StepDumper&)> on_written_;
  DumpIndex index_;
  std::vector<NamedTensor> pending_;  // of the next file
  std::size_t pending_bytes_ = 0;
  std::int64_t bytes_ = 0;
};

// Throws ArgumentError beginning with `option` unless the folder is empty or does not exist, and
// FileError if it could not be written.
void check_dump_folder(const std::string& folder, const char* option = "dump");

// Whether there is a folder of that name with the index of a dump in it.
bool is_dump(const std::string& folder);

// Reads a dump. Its tensors are read from the files when their elements are, so the dump may be
// larger than the memory, and must not be changed as long as the record exists. Throws FileError if
// it is not a whole dump.
StepRecord read_dump(const std::string& folder);

}  // namespace mezzo::numbers
