// Observes and controls the emulated cuDNN in tests.
#pragma once

namespace mezzo::emulated_card {

struct CudnnWatch {
  bool refuses_16_bits = false;  // engines accept such operands, but refuse to run
  int plans = 0;                 // made so far
  int compiled = 0;              // of them for engines that are compiled at run time
  int runs_of_f32 = 0;           // runs with f32 operands, as opposed to 16-bit ones
  int runs_of_16_bits = 0;
  int runs_in_tf32 = 0;
  int runs_that_hand_on_sums = 0;
};

CudnnWatch& cudnn_watch();

}  // namespace mezzo::emulated_card
