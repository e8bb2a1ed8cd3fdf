// What a test can learn from the emulated cuDNN, and tell it to do.
#pragma once

namespace mezzo::emulated_card {

struct CudnnWatch {
  bool refuses_16_bits = false;  // engines take such operands, and then refuse to run
  int plans = 0;                 // made so far
  int compiled = 0;              // of engines that are compiled at run time
  int runs_of_f32 = 0;           // with operands of 16 bits, or of f32
  int runs_of_16_bits = 0;
  int runs_in_tf32 = 0;
  int runs_that_hand_on_sums = 0;
};

CudnnWatch& cudnn_watch();

}  // namespace mezzo::emulated_card
