// Module: a network, or a part of one, with named parameters, buffers and children.
//
//   class Net : public nn::Module {
//    public:
//     Net() { add("conv", conv_), add("fc", fc_); }
//     Tensor forward(const Tensor& x) override { return fc_(flatten(relu(conv_(x)), 1)); }
//
//    private:
//     nn::Conv2d conv_{1, 6, 5};
//     nn::Linear fc_{6 * 24 * 24, 10};
//   };
//
// A module may take several tensors and return several: it implements forward_all() instead, and
// is called with braces, net({q, k, v}).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/named_tensor.h"
#include "mezzo/core/scoped.h"
#include "mezzo/core/tensor.h"
#include "mezzo/nn/forward_hook.h"

namespace mezzo::nn {

// Thrown by load_state() for a state of another network. The message ends with advice, which a
// program may replace with its own.
class StateMismatch : public ArgumentError {
 public:
  StateMismatch(const std::string& difference, const std::string& advice)
      : ArgumentError(concat(difference, ". ", advice)), difference_length_(difference.size()) {}

  // The message without the advice and the full stop before it.
  std::string difference() const { return std::string(what(), difference_length_); }

 private:
  std::size_t difference_length_;
};

// The innermost module whose forward pass this thread is in; null outside of modules.
Module* current_module();

// The path() of current_module(); empty outside of modules and in a root.
std::string current_module_path();

// Children, parameters and buffers are members of the derived class, registered by name in its
// constructor. The module keeps pointers to them, so the registered members are those that
// forward() uses. For the same reason modules can be neither copied nor moved.
class Module {
 public:
  struct Child {
    std::string name;
    Module* module;
  };
  struct Member {
    std::string name;
    Tensor* tensor;
  };
  struct NamedModule {
    std::string name;
    Module* module;
  };

  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // The forward pass. While it runs, current_module() is this module.
  Tensor operator()(const Tensor& x) {
    return run(x, [this](const Tensor& input) { return forward(input); });
  }
  // The forward pass of several inputs, or with several results: net({q, k, v}).
  Tensors operator()(const Tensors& inputs) {
    return run(inputs, [this](const Tensors& all) { return forward_all(all); });
  }
  // The computation of the module, called through operator(). Derived classes implement one of the
  // two: forward() if there is one input and one result, else forward_all(). Each calls the other
  // by default. Throws ArgumentError naming the module if it implements neither, or if it is called
  // with another number of inputs, or asked for another number of results, than it has.
  virtual Tensor forward(const Tensor& x);
  virtual Tensors forward_all(const Tensors& inputs);

  // The name its parent gave to this module; empty for a root.
  const std::string& name() const { return name_; }
  // The module that this one was added to; null for a root.
  Module* parent() const { return parent_; }
  // The names from the root's child to this module, `layer1.0.conv2`; empty for a root.
  std::string path() const;

  // Everything below this module, a module before its children, in the order of registration. Names
  // are relative to this module. A tensor that two modules share is listed once.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<NamedModule> named_modules();  // this module first, with an empty name
  // The modules below this one whose relative path matches a shell pattern such as `layer?.*`, in
  // which `*` matches dots, too.
  std::vector<Module*> matching(const std::string& pattern);
  // The module at a path relative to this one, `layer1.0.conv2`, or null; this module for "".
  Module* find(std::string_view path);
  // The tensors of named_parameters(): the module's own, not copies.
  std::vector<Tensor> parameters() const;
  // The number of elements in all parameters.
  std::int64_t parameter_count() const;

  // Members that this module registered itself. The tensors may be replaced through the pointers,
  // for example by a cast, if nobody else keeps the old ones.
  std::span<const Child> children() const { return children_; }
  std::span<const Member> own_parameters() const { return parameters_; }
  std::span<const Member> own_buffers() const { return buffers_; }

  // Calls f for every module below this one, children before parents, and for this one last.
  void apply(const std::function<void(Module&)>& f);

  // Sets the mode of this module and all below it: dropout and batch norm act in training only.
  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }

  // Drops the gradients of all parameters.
  void zero_grad();

  // Moves all parameters, their gradients and floating-point buffers to a device. Counters stay on
  // the host, which does the counting. The handles that an optimizer holds move along, but its
  // state does not, so move the module first. Throws UnsupportedError if there is no such device.
  void to(Device device);
  // The device of the parameters; the CPU if there are none.
  Device device() const;

  // Parameters and buffers with PyTorch's names, in the order of its state_dict. The tensors are
  // the module's own, not copies; a shared tensor appears under each of its names.
  std::vector<NamedTensor> state() const;
  // Copies the values into the module's tensors, converting between floating types. Throws
  // StateMismatch, and changes nothing, if shapes or kinds of dtype differ, or, when strict, if
  // names are missing or unexpected; the message lists the first of them. A missing
  // `num_batches_tracked` stays unchanged, as in PyTorch, whose older files have none. For a tensor
  // with several names, one value is enough; several values must be equal. A name that the module
  // does not have is accepted if its tensor is also there under one of the module's names. Throws
  // ArgumentError if a name appears twice or a tensor is undefined.
  void load_state(std::span<const NamedTensor> state, bool strict = true);
  void load_state(const std::map<std::string, Tensor>& state, bool strict = true);

  // Wraps the forward pass of this module from now on. Hooks nest: the first one is outermost,
  // unless another is added with add_outermost_forward_hook(). Throws ArgumentError for null.
  // Removing a hook that is not there does nothing.
  void add_forward_hook(std::shared_ptr<ForwardHook> hook);
  void add_outermost_forward_hook(std::shared_ptr<ForwardHook> hook);
  void remove_forward_hook(const ForwardHook* hook);
  const std::vector<std::shared_ptr<ForwardHook>>& forward_hooks() const { return hooks_; }

 protected:
  // Registers a child, a parameter (which then requires gradients) or a buffer (which does not).
  // Throws ArgumentError if the name is taken, empty or has a dot, if the child has a parent, and
  // if the tensor is undefined or cannot have gradients.
  void add(std::string name, Module& child);
  void add_parameter(std::string name, Tensor& parameter);
  void add_buffer(std::string name, Tensor& buffer);

  // Runs body(x) as this module's forward pass: for modules that can be called in several ways.
  template <class Body>
  Tensor run(const Tensor& x, const Body& body) {
    const Entered entered(*this);
    if (!hooks_.empty() || entered.has_hook()) [[unlikely]]
      return run_hooks_of_one(entered, x, std::cref(body));
    return body(x);
  }
  // The same for several inputs and results.
  template <class Body>
  Tensors run(const Tensors& inputs, const Body& body) {
    const Entered entered(*this);
    if (!hooks_.empty() || entered.has_hook()) [[unlikely]]
      return run_hooks(entered, inputs, std::cref(body));
    return body(inputs);
  }

 private:
  // Makes a module the current one while it exists.
  class Entered {
   public:
    explicit Entered(Module& module);
    // Whether there is a hook of AroundModules for this call.
    bool has_hook() const { return has_hook_; }

   private:
    Scoped<Module*> scope_;
    bool has_hook_;
  };

  Tensors run_hooks(const Entered& entered, const Tensors& inputs,
                    const ForwardHook::Forward& body);
  Tensor run_hooks_of_one(const Entered& entered, const Tensor& x,
                          const std::function<Tensor(const Tensor&)>& body);
  std::vector<NamedTensor> named(std::vector<Member> Module::*members) const;
  const Tensor* first_parameter() const;
  void check_name(std::string_view name) const;
  template <class Visit>
  void visit(const std::string& prefix, const Visit& visit_module) const;

  std::string name_;
  Module* parent_ = nullptr;
  bool training_ = true;
  std::vector<Child> children_;
  std::vector<Member> parameters_;
  std::vector<Member> buffers_;
  std::vector<std::shared_ptr<ForwardHook>> hooks_;
};

}  // namespace mezzo::nn
