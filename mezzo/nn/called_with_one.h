// How a module was called: with one tensor or with a list.
#pragma once

namespace mezzo::nn {

// For hooks: whether the module that the hook is around was called with one tensor, which runs its
// forward(), rather than with a list, which runs its forward_all().
bool is_called_with_one();

}  // namespace mezzo::nn
