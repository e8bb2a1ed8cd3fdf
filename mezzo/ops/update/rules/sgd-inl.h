// Stochastic gradient descent. See list-inl.h for how this file is included.

// With g the gradient plus weight_decay times the parameter:
//   momentum = momentum_factor * momentum + intake * g
//   param   -= lr * (nesterov ? g + momentum_factor * momentum : momentum)
// as torch.optim.SGD does; Sutskever et al., "On the importance of initialization and momentum in
// deep learning", ICML 2013. Without momentum, g itself is the direction.
template <bool kMomentum, bool kNesterov>
struct Sgd {
  static constexpr const char* kName = "sgd_step";
  static constexpr std::size_t kSlots = kMomentum ? 1 : 0;
  static constexpr SlotNames kSlotNames{"momentum"};
  static constexpr unsigned kSquares = 0;

  struct Factors {
    float lr;
    float momentum;
    float weight_decay;
  };
  struct Own {
    float intake;  // how much of the gradient the momentum takes in: 1 in the first step, then 1 -
                   // dampening
  };

  template <class Number>
  MEZZO_RULE_FUNCTION static void apply(Number& param, Number grad, Number* slots, const Own& own,
                                        const Factors& f) {
    const Number g = decayed(f.weight_decay, param, grad);
    Number direction = g;
    if constexpr (kMomentum) {
      slots[0] = zero_below(kLeastState, fma(Number(f.momentum), slots[0], Number(own.intake) * g));
      direction = kNesterov ? fma(Number(f.momentum), slots[0], g) : slots[0];
    }
    param = minus_product(param, Number(f.lr), direction);
  }
};
