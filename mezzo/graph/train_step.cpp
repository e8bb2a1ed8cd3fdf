#include "mezzo/graph/train_step.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

namespace mezzo::graph {
namespace {

// The compiled step of the body that ran last.
class CapturedBody {
 public:
  CapturedBody(nn::Module& net, const RecordOptions& record)
      : step_([this](std::span<const Tensor> batch) { return call(batch); },
              {.networks = {&net}, .mode = [this] { return mode_number_; }, .record = record}) {}
  CapturedBody(const CapturedBody&) = delete;
  CapturedBody& operator=(const CapturedBody&) = delete;

  void run(const amp::StepBody& body, const amp::StepMode& mode, std::span<const Tensor> batch) {
    body_ = &body;
    mode_number_ = number_of(mode);
    step_(batch);
  }

  void release_memory() { step_.release_memory(); }

 private:
  std::vector<Tensor> call(std::span<const Tensor> batch) const {
    (*body_)(batch);
    return {};
  }

  // Modes are numbered in the order in which they are seen.
  std::uint64_t number_of(const amp::StepMode& mode) {
    const auto found = std::ranges::find(modes_, mode);
    const auto number = static_cast<std::uint64_t>(found - modes_.begin());
    if (found == modes_.end()) modes_.push_back(mode);
    return number;
  }

  const amp::StepBody* body_ = nullptr;
  std::vector<amp::StepMode> modes_;
  std::uint64_t mode_number_ = 0;
  CompiledStep step_;
};

}  // namespace

amp::StepExecution captured(nn::Module& net, const RecordOptions& record) {
  auto captured_body = std::make_shared<CapturedBody>(net, record);
  return {[captured_body](const amp::StepBody& body, const amp::StepMode& mode,
                          std::span<const Tensor> batch) { captured_body->run(body, mode, batch); },
          [captured_body] { captured_body->release_memory(); }};
}

}  // namespace mezzo::graph
