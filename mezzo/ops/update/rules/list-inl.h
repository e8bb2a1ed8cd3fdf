// The update rules of the library's optimizers: what a step does to one number of a parameter. Both
// devices compile them, so that a rule is written once and rounds alike everywhere.
//
// Included by ops/update/update_rule.h for the host's side of an update, and by the kernels once
// for each instruction set and once for cards: hence no include guard, and no includes of its own.
// Whoever includes it does so within a namespace of its own, and defines before
//   MEZZO_RULE_FUNCTION   what stands before a function: inline, __device__
//   SlotNames, RuleList and kLeastState
//
// A rule is a type with
//   kName       the operation's name in messages and profiles
//   kSlots      how many f32 numbers of state each number of a parameter has, at most kMostSlots
//   kSlotNames  what checkpoints call them
//   kSquares    bit k is set if slot k is a mean of squares; see narrow_state.h
//   Factors     floats that are the same for all parameters of a step, at most kMostFactors
//   Own         floats that each parameter has of its own, at most kMostOwn
//   apply(param, grad, slots, own, factors), which changes param and slots; the loss scale is taken
//               out of the gradient, and it is clipped
//
// Number is a number or a vector of them. Each operation is rounded once, so that devices agree:
// + - * /, and
//   fma(a, b, c)            a * b + c
//   minus_product(v, a, b)  v - a * b
//   decayed(d, p, g)        g + d * p, and g where d is 0: 0 times an infinity would be a NaN
//   zero_below(least, v)    0 where |v| < least; a NaN stays
//   at_least_zero(v), sqrt(v), sign(v)
#include "mezzo/ops/update/rules/adam-inl.h"
#include "mezzo/ops/update/rules/lion-inl.h"
#include "mezzo/ops/update/rules/rmsprop-inl.h"
#include "mezzo/ops/update/rules/sgd-inl.h"

// Each with the variants that are compiled of it.
using Rules = RuleList<Sgd<false, false>, Sgd<true, false>, Sgd<true, true>, Adam<false>,
                       Adam<true>, Lion, RmsProp<false, false>, RmsProp<false, true>,
                       RmsProp<true, false>, RmsProp<true, true>>;
