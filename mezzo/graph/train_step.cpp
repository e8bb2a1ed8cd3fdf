#include "mezzo/graph/train_step.h"

#include <memory>

namespace mezzo::graph {
namespace {

// The compiled step of the body that ran last.
class CapturedBody {
 public:
  CapturedBody(nn::Module& net, const RecordOptions& record)
      : step_([this](std::span<const Tensor> batch) { return call(batch); },
              {.networks = {&net}, .mode = [this] { return mode_; }, .record = record}) {}
  CapturedBody(const CapturedBody&) = delete;
  CapturedBody& operator=(const CapturedBody&) = delete;

  void run(const amp::StepBody& body, std::uint64_t mode, const Tensor& input,
           const Tensor& labels) {
    body_ = &body;
    mode_ = mode;
    const Tensor batch[] = {input, labels};
    step_(batch);
  }

  void release_memory() { step_.release_memory(); }

 private:
  std::vector<Tensor> call(std::span<const Tensor> batch) const {
    (*body_)(batch[0], batch[1]);
    return {};
  }

  const amp::StepBody* body_ = nullptr;
  std::uint64_t mode_ = 0;
  CompiledStep step_;
};

}  // namespace

amp::StepExecution captured(nn::Module& net, const RecordOptions& record) {
  auto captured_body = std::make_shared<CapturedBody>(net, record);
  return {[captured_body](const amp::StepBody& body, std::uint64_t mode, const Tensor& input,
                          const Tensor& labels) { captured_body->run(body, mode, input, labels); },
          [captured_body] { captured_body->release_memory(); }};
}

}  // namespace mezzo::graph
