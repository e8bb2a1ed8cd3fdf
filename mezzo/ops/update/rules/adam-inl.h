// Adam and AdamW. See list-inl.h for how this file is included.

// With g the gradient, plus weight_decay times the parameter in Adam:
//   param      *= shrink                                      (1 - lr * weight_decay in AdamW, else
//   1) exp_avg     = beta1 * exp_avg    + (1 - beta1) * g exp_avg_sq  = beta2 * exp_avg_sq + (1 -
//   beta2) * g * g param      -= step_size * exp_avg / (sqrt(exp_avg_sq) * correction + eps)
// where step_size = lr / (1 - beta1^step) and correction = 1 / sqrt(1 - beta2^step) take out the
// bias of moments that began at zero. Kingma and Ba, "Adam: a method for stochastic optimization",
// ICLR 2015; Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
//
// The first moment is computed as old + (g - old) * (1 - beta1), which rounds once less than the
// formula, whose two factors in f32 do not add up to 1. It begins at the nearer one of the old
// moment and the gradient (kFromGrad) and goes `way` towards the other: 1 - beta1, or beta1. So it
// loses nothing where one of them is all of it.
template <bool kFromGrad>
struct Adam {
  static constexpr const char* kName = "adam_step";
  static constexpr std::size_t kSlots = 2;
  static constexpr SlotNames kSlotNames{"exp_avg", "exp_avg_sq"};
  static constexpr unsigned kSquares = 0b10;

  struct Factors {
    float way;
    float beta2;
    float one_minus_beta2;
    float eps;
    float least;         // smaller moments become zero
    float weight_decay;  // added to the gradient
    float shrink;        // the parameter is multiplied by this
  };
  struct Own {
    float step_size;
    float correction;
  };

  template <class Number>
  MEZZO_RULE_FUNCTION static void apply(Number& param, Number grad, Number* slots, const Own& own,
                                        const Factors& f) {
    const Number g = decayed(f.weight_decay, param, grad);
    const Number near = kFromGrad ? g : slots[0];
    const Number far = kFromGrad ? slots[0] : g;
    slots[0] = zero_below(f.least, fma(far - near, Number(f.way), near));
    slots[1] =
        zero_below(f.least, fma(Number(f.one_minus_beta2) * g, g, Number(f.beta2) * slots[1]));
    const Number denominator = fma(sqrt(slots[1]), Number(own.correction), Number(f.eps));
    param = minus_product(param * Number(f.shrink), Number(own.step_size), slots[0] / denominator);
  }
};
