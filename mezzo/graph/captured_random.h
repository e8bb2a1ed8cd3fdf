// CapturedRandom: the positions of a step's random numbers in the stream of the default generator.
#pragma once

#include <algorithm>

#include "mezzo/core/random.h"
#include "mezzo/ops/dispatcher/call_listener.h"

namespace mezzo::graph {

class CapturedRandom {
 public:
  // Messages begin with `op`.
  explicit CapturedRandom(const char* op)
      : op_(op), before_(default_generator().position()), start_(default_generator().reserve(0)) {}

  // The block of words at which a run begins.
  const RandomPosition& start() const { return start_; }

  // Makes the position of a call relative to the beginning of the run. Numbers of the default
  // generator lie between that beginning and the generator's current position.
  void make_relative(const FinishedCall& call, RandomPosition& position) {
    check_not_seeded();
    drawn_to_ = std::max(drawn_to_, default_generator().position().offset);
    const bool is_drawn = position.offset >= start_.offset && position.offset < drawn_to_;
    const bool is_empty = call.outputs[0].numel() == 0;
    check_arg(
        position.seed == start_.seed && (is_drawn || is_empty), op_, call.op.name,
        " takes random numbers from its own generator. In a captured step use default_generator()");
    position = {0, position.offset - start_.offset};
  }

  std::uint64_t words_drawn() const {
    check_not_seeded();
    return default_generator().position().offset - start_.offset;
  }

  // Restores the generator's position.
  void clean_up() const { default_generator().set_position(before_); }

 private:
  void check_not_seeded() const {
    const RandomPosition now = default_generator().position();
    check_arg(now.seed == start_.seed && now.offset >= start_.offset, op_,
              "the step seeds default_generator() or moves it back, which a run would not do. Do "
              "that outside the step");
  }

  const char* op_;
  RandomPosition before_;       // the generator's position
  RandomPosition start_;        // the same rounded up to a whole block of words, where a run begins
  std::uint64_t drawn_to_ = 0;  // the furthest position that the step has reached
};

}  // namespace mezzo::graph
