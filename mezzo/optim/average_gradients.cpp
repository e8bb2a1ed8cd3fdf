#include "mezzo/optim/gradient_exchange.h"
#include "mezzo/optim/gradients.h"

namespace mezzo::optim {

void average_gradients(std::span<const Tensor> params, distributed::ProcessGroup& group,
                       DType reduce_dtype) {
  if (group.size() == 1) return;
  const auto exchange = GradientExchange::make(params, {}, group, reduce_dtype);
  exchange->begin(GradientExchange::Kind::kWhole);
  exchange->finish({});
}

}  // namespace mezzo::optim
