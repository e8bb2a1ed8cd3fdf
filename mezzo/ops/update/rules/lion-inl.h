// Lion. See list-inl.h for how this file is included.

// With g the gradient:
//   param   *= shrink                                                 (1 - lr * weight_decay)
//   param   -= lr * sign(beta1 * exp_avg + (1 - beta1) * g)
//   exp_avg  = beta2 * exp_avg + (1 - beta2) * g
// Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023. The sign of zero is
// zero.
struct Lion {
  static constexpr const char* kName = "lion_step";
  static constexpr std::size_t kSlots = 1;
  static constexpr SlotNames kSlotNames{"exp_avg"};
  static constexpr unsigned kSquares = 0;

  struct Factors {
    float lr;
    float beta1;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
    float shrink;
  };
  struct Own {};

  template <class Number>
  MEZZO_RULE_FUNCTION static void apply(Number& param, Number grad, Number* slots,
                                        const Own& /*own*/, const Factors& f) {
    const Number direction = fma(Number(f.beta1), slots[0], Number(f.one_minus_beta1) * grad);
    slots[0] =
        zero_below(kLeastState, fma(Number(f.beta2), slots[0], Number(f.one_minus_beta2) * grad));
    param = minus_product(param * Number(f.shrink), Number(f.lr), sign(direction));
  }
};
