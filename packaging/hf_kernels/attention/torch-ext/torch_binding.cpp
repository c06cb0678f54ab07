// Schemas of posenc's attention. Its kernels register themselves (src/bindings/torch/attention_cpu.cc and cache_cpu.cc).
#include <torch/csrc/stable/library.h>

#include "registration.h"

// POSENC_ATTENTION_SCHEMA of torch/attention_arguments.h; that header needs flags of its own.
#define POSENC_ATTENTION_SCHEMA                                                                   \
  "Tensor[] inputs, str spec, bool causal, int window_left, int window_right, Tensor? key_mask, " \
  "Tensor? cu_queries, Tensor? cu_keys, Tensor? q_positions, Tensor? k_positions, "               \
  "float? scale, float dropout, int seed, bool keys_are_turned"

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) {
  m.def(
      "attention(Tensor q, Tensor k, Tensor v, str spec, Tensor[] parameters, Tensor[] inputs, *, "
      "bool causal=False, int window_left=-1, int window_right=-1, Tensor? key_mask=None, "
      "Tensor? cu_queries=None, Tensor? cu_keys=None, Tensor? q_positions=None, "
      "Tensor? k_positions=None, float? scale=None, float dropout=0.0, int seed=0, "
      "bool keys_are_turned=False) -> (Tensor, Tensor)");
  m.def("_attention(Tensor q, Tensor k, Tensor v, Tensor parameters, " POSENC_ATTENTION_SCHEMA
        ") -> (Tensor, Tensor)");
  m.def(
      "_attention_backward(Tensor grad_out, Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, "
      "Tensor parameters, " POSENC_ATTENTION_SCHEMA
      ", bool wants_parameters) -> (Tensor, Tensor, Tensor, Tensor[], Tensor)");
  m.def(
      "_attention_cache(Tensor q, Tensor k, Tensor v, Tensor? k_scales, Tensor? v_scales, "
      "Tensor? block_table, Tensor? cache_lengths, Tensor parameters, " POSENC_ATTENTION_SCHEMA
      ") -> Tensor");
  m.def("quantize_rows(Tensor x) -> (Tensor, Tensor)");
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
