// RMSprop. See list-inl.h for how this file is included.

// With g the gradient plus weight_decay times the parameter:
//   square_avg = alpha * square_avg + (1 - alpha) * g * g
//   grad_avg   = alpha * grad_avg + (1 - alpha) * g                   (kCentered)
//   step       = g / (sqrt(square_avg - grad_avg * grad_avg) + eps)   (grad_avg is 0 unless
//   kCentered) momentum_buffer = momentum * momentum_buffer + step               (kMomentum; else
//   it is the step itself) param     -= lr * momentum_buffer
// as torch.optim.RMSprop does. Tieleman and Hinton, "Lecture 6.5: rmsprop", 2012; Graves,
// "Generating sequences with recurrent neural networks", 2013 (centered).
template <bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr const char* kName = "rmsprop_step";
  static constexpr std::size_t kSlots = 1 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
  static constexpr SlotNames kSlotNames =
      kCentered   ? SlotNames{"square_avg", "grad_avg", "momentum_buffer"}
      : kMomentum ? SlotNames{"square_avg", "momentum_buffer"}
                  : SlotNames{"square_avg"};
  static constexpr unsigned kSquares = 0b1;

  struct Factors {
    float lr;
    float alpha;
    float one_minus_alpha;
    float eps;
    float weight_decay;
    float momentum;
    float least;  // smaller averages become zero
  };
  struct Own {};

  template <class Number>
  MEZZO_RULE_FUNCTION static void apply(Number& param, Number grad, Number* slots,
                                        const Own& /*own*/, const Factors& f) {
    const Number g = decayed(f.weight_decay, param, grad);
    slots[0] =
        zero_below(f.least, fma(Number(f.one_minus_alpha) * g, g, Number(f.alpha) * slots[0]));
    Number variance = slots[0];
    if constexpr (kCentered) {
      slots[1] = zero_below(f.least, fma(g - slots[1], Number(f.one_minus_alpha), slots[1]));
      // Rounding may leave a little less than zero where all gradients were the same.
      variance = at_least_zero(minus_product(variance, slots[1], slots[1]));
    }
    Number step = g / (sqrt(variance) + Number(f.eps));
    if constexpr (kMomentum) {
      Number& buffer = slots[kSlots - 1];
      buffer = zero_below(kLeastState, fma(Number(f.momentum), buffer, step));
      step = buffer;
    }
    param = minus_product(param, Number(f.lr), step);
  }
};
