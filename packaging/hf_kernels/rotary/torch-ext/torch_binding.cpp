// Schemas of posenc's rotations. Their kernels register themselves (src/bindings/torch/rope_cpu.cc).
#include <torch/csrc/stable/library.h>

#include "registration.h"

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) {
  m.def(
      "rope(Tensor q, Tensor k, str spec, Tensor[] parameters, *, Tensor? positions=None, "
      "bool transposed=False) -> (Tensor, Tensor)");
  m.def(
      "_rope(Tensor q, Tensor k, Tensor parameters, str spec, Tensor? positions, bool transposed) "
      "-> (Tensor, Tensor)");
  m.def(
      "_rope_frequency_gradient(Tensor q, Tensor k, Tensor dq, Tensor dk, Tensor parameters, "
      "str spec, Tensor? positions) -> Tensor");
  m.def(
      "rerotate(Tensor k, str spec, Tensor from_positions, Tensor to_positions, "
      "str to_spec=\"\") -> Tensor");
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
