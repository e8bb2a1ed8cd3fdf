// The five experiments. Each adds its values to the table.
#pragma once

#include "benchmarks/numerics/table.h"
#include "mezzo/mezzo.h"

namespace numerics {

// 1. Training in bf16, and in f16 with dynamic loss scaling, is as good as in f32.
void run_matching(const mezzo::train::DataPair& data, Table& table);

// 2. How many activation gradients f16 cannot hold, and how loss scaling changes that.
void run_gradients(const mezzo::train::DataPair& data, Table& table);

// 3. With a loss 2^16 times smaller and a learning rate as much larger, f32 is unaffected, f16
//   fails, and loss scaling repairs it.
void run_scaling(const mezzo::train::DataPair& data, Table& table);

// 4. Powers of two in the loss, the scale and the learning rate cancel out, to the last bit.
void run_exact(const mezzo::train::DataPair& data, Table& table);

// 5. bf16 parameters with small updates: what rounding to nearest loses, and three ways that lose
//   nothing.
void run_weight_update(const mezzo::train::DataPair& data, Table& table);

}  // namespace numerics
