// A reference to a callable object, like std::function_ref of C++26: no copy, no allocation. With
// it, a function that takes a callable is compiled once, not for every callable.
#pragma once

namespace mezzo {

template <class Signature>
class FunctionRef;

// The object must outlive the FunctionRef. A temporary does if the FunctionRef is a parameter.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Function>
  // NOLINTNEXTLINE(google-explicit-constructor): callers write a lambda
  FunctionRef(const Function& function)
      : function_(&function), call_([](const void* f, Args... args) -> Result {
          return (*static_cast<const Function*>(f))(args...);
        }) {}

  Result operator()(Args... args) const { return call_(function_, args...); }

 private:
  const void* function_;
  Result (*call_)(const void*, Args...);
};

}  // namespace mezzo
