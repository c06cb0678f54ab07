// Every operator of posenc, in one list. Kernels, gradients and shapes are registered where they are
// written; names with an underscore are what the others are made of.
#include "torch/attention_arguments.h"
#include "torch/register.h"

// Options of softmax attention with the defaults that users see.
#define POSENC_MASK_OPTIONS                                                \
  "Tensor? key_mask=None, Tensor? cu_queries=None, Tensor? cu_keys=None, " \
  "Tensor? q_positions=None, Tensor? k_positions=None"
#define POSENC_ATTENTION_OPTIONS                                                     \
  "bool causal=False, int window_left=-1, int window_right=-1, " POSENC_MASK_OPTIONS \
  ", float? scale=None"
#define POSENC_LINEAR_SCHEMA                                                               \
  "str spec, str form, float epsilon, bool causal, Tensor? key_mask, Tensor? cu_queries, " \
  "Tensor? cu_keys, Tensor? q_positions, Tensor? k_positions"

POSENC_SCHEMAS(m) {
  m.def(
      "attention(Tensor q, Tensor k, Tensor v, str spec, Tensor[] parameters, Tensor[] inputs, "
      "*, " POSENC_ATTENTION_OPTIONS
      ", float dropout=0.0, int seed=0, bool keys_are_turned=False) -> (Tensor, Tensor)");
  m.def("_attention(Tensor q, Tensor k, Tensor v, Tensor parameters, " POSENC_ATTENTION_SCHEMA
        ") -> (Tensor, Tensor)");
  m.def(
      "_attention_backward(Tensor grad_out, Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, "
      "Tensor parameters, " POSENC_ATTENTION_SCHEMA
      ", bool wants_parameters) -> (Tensor, Tensor, Tensor, Tensor[], Tensor)");
  m.def(
      "attention_decode(Tensor q, Tensor k, Tensor v, str spec, Tensor[] parameters, "
      "Tensor[] inputs, *, int window_left=-1, Tensor? key_mask=None, Tensor? q_positions=None, "
      "Tensor? k_positions=None, float? scale=None, bool keys_are_turned=False, "
      "Tensor? k_scales=None, Tensor? v_scales=None, Tensor? block_table=None, "
      "Tensor? cache_lengths=None) -> Tensor");
  m.def(
      "_attention_cache(Tensor q, Tensor k, Tensor v, Tensor? k_scales, Tensor? v_scales, "
      "Tensor? block_table, Tensor? cache_lengths, Tensor parameters, " POSENC_ATTENTION_SCHEMA
      ") -> Tensor");
  m.def("quantize_rows(Tensor x) -> (Tensor, Tensor)");
  m.def(
      "attention_weights(Tensor q, Tensor k, Tensor v, str spec, Tensor[] parameters, "
      "Tensor[] inputs, *, " POSENC_ATTENTION_OPTIONS ") -> Tensor");
  m.def(
      "cope_positions(Tensor q, Tensor k, Tensor v, str spec, Tensor[] parameters, "
      "Tensor[] inputs, *, " POSENC_ATTENTION_OPTIONS ") -> Tensor");
  m.def(
      "_attention_inside(Tensor q, Tensor k, Tensor v, Tensor parameters, " POSENC_ATTENTION_SCHEMA
      ") -> (Tensor, Tensor)");

  m.def(
      "linear_attention(Tensor q, Tensor k, Tensor v, str spec, Tensor[] parameters, *, "
      "str form=\"elu\", float epsilon=1e-3, bool causal=False, " POSENC_MASK_OPTIONS
      ") -> Tensor");
  m.def("_linear_attention(Tensor q, Tensor k, Tensor v, Tensor parameters, " POSENC_LINEAR_SCHEMA
        ") -> (Tensor, Tensor)");
  m.def(
      "_linear_attention_backward(Tensor grad_out, Tensor out, Tensor sums, Tensor q, Tensor k, "
      "Tensor v, Tensor parameters, " POSENC_LINEAR_SCHEMA ") -> (Tensor, Tensor, Tensor, Tensor)");

  m.def(
      "rope(Tensor q, Tensor k, str spec, Tensor[] parameters, *, "
      "Tensor? positions=None, bool transposed=False) -> (Tensor, Tensor)");
  m.def(
      "_rope(Tensor q, Tensor k, Tensor parameters, str spec, Tensor? positions, bool transposed) "
      "-> (Tensor, Tensor)");
  m.def(
      "_rope_frequency_gradient(Tensor q, Tensor k, Tensor dq, Tensor dk, Tensor parameters, "
      "str spec, Tensor? positions) -> Tensor");
  m.def(
      "rerotate(Tensor k, str spec, Tensor from_positions, Tensor to_positions, "
      "str to_spec=\"\") -> Tensor");

  m.def("alibi_slopes(int heads, str spec=\"alibi\") -> Tensor");
  m.def("t5_buckets(Tensor relative, str spec=\"t5\") -> Tensor");
  m.def("rope_tables(str spec, int head_dim, int heads, int length) -> (Tensor cos, Tensor sin)");
  m.def("sinusoidal_vectors(Tensor positions, int model_dim, str spec=\"sinusoidal\") -> Tensor");
  m.def("catalog() -> str");
  m.def("spec_at_length(str spec, int length) -> str");
  m.def("spec_info(str spec, int head_dim=0, int heads=0, int model_dim=0, str part=\"\") -> str");
  m.def("hf_specs(str config, str precision=\"hf\") -> str");
  m.def(
      "initial_parameters(str spec, int head_dim, int heads, int model_dim=0, int seed=0) -> "
      "Tensor[]");
  m.def(
      "explain(str spec, int batch, int heads, int kv_heads, int queries, int keys, int head_dim, "
      "str device=\"cpu\", str dtype=\"float32\", bool paged=False, int value_dim=0) -> str");
  m.def("_slow_path(str spec, Tensor q, Tensor k, Tensor v, bool explicit_positions) -> str");
  m.def("_last_path(bool backward=False) -> str");  // for the tests of explain
  m.def("version() -> str");
  m.def(
      "_error_parts(str message) -> str");  // of the error that this thread saw last, as JSON; empty: of another
}
