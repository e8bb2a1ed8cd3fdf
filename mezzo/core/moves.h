// Moves of remembered memory; see count_of_moves() in core/tensor.h.
#pragma once

namespace mezzo {

// Counts a move: of memory that recordings of device work may hold and that no tensor of a program
// stands for, such as a list of tensors that has changed.
void note_move();

}  // namespace mezzo
