// Under autocast q, k and v may come in different types. They are brought to the widest of them: the
// kernels compute rotations, scores and gates in float32 whatever the storage, and parameters stay
// float32. int8 rows of a cache stay as they are.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/autograd.h"

namespace posenc::ops {
namespace {

at::ScalarType widest(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  at::ScalarType type = q.scalar_type();
  for (const at::Tensor& x : {k, v}) {
    if (x.is_floating_point()) type = at::promote_types(type, x.scalar_type());
  }
  return type;
}

at::Tensor in_type(const at::Tensor& x, at::ScalarType type) {
  return x.is_floating_point() ? x.to(type) : x;
}

// Pools are read in their type: a conversion would copy all of them.
bool is_paged(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "block_table") continue;
    return !stack[stack.size() - arguments.size() + i].isNone();
  }
  return false;
}

// Calls `op` below autocast with the first three arguments, or two, in one type.
template <c10::DispatchKey kKey>
void common_type_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack->size() - arguments.size();
  const bool has_values = arguments.size() > 2 && arguments[2].name() == "v";
  at::Tensor q = (*stack)[first].toTensor();
  at::Tensor k = (*stack)[first + 1].toTensor();
  const at::Tensor v = has_values ? (*stack)[first + 2].toTensor() : k;
  if (is_paged(op, *stack)) return op.callBoxed(stack);
  const at::ScalarType type = widest(q, k, v);
  (*stack)[first] = q.to(type);
  (*stack)[first + 1] = in_type(k, type);
  if (has_values) (*stack)[first + 2] = in_type(v, type);
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (arguments[i].name() != "inputs") continue;
    // Sums over tokens stay float32; the spec says which inputs are.
    const auto wanted = token_inputs(parse_any_spec((*stack)[first + 3].toStringRef()),
                                     {.head_dim = q.size(3), .heads = q.size(1), .model_dim = 0});
    std::vector<at::Tensor> inputs = value.toTensorVector();
    for (std::size_t n = 0; n < std::min(inputs.size(), wanted.size()); ++n) {
      const bool narrow = wanted[n].info.float32 && type != at::kDouble;
      inputs[n] = inputs[n].to(narrow ? at::kFloat : type);
    }
    value = inputs;
  }
  op.callBoxed(stack);
}

template <c10::DispatchKey kKey>
void register_all(torch::Library& m) {
  for (const char* name : {"attention", "attention_decode", "linear_attention", "rope"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&common_type_boxed<kKey>>());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, AutocastCPU, m) { register_all<c10::DispatchKey::AutocastCPU>(m); }
TORCH_LIBRARY_IMPL(posenc, AutocastCUDA, m) { register_all<c10::DispatchKey::AutocastCUDA>(m); }

}  // namespace posenc::ops
