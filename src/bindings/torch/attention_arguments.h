// The arguments of the attention operators, in a single list from which schemas, kernels, autograd and
// autocast are generated.
#pragma once

#include "torch/arguments.h"

namespace posenc::ops {

// After q, k, v and the parameters, which are the tensors that are differentiated with the inputs.
#define POSENC_ATTENTION_SCHEMA                                                                   \
  "Tensor[] inputs, str spec, bool causal, int window_left, int window_right, Tensor? key_mask, " \
  "Tensor? cu_queries, Tensor? cu_keys, Tensor? q_positions, Tensor? k_positions, "               \
  "float? scale, float dropout, int seed, bool keys_are_turned"

#define POSENC_ATTENTION_PARAMETERS                                                                \
  at::TensorList inputs, std::string spec, bool causal, std::int64_t window_left,                  \
      std::int64_t window_right, const OptionalTensor &key_mask, const OptionalTensor &cu_queries, \
      const OptionalTensor &cu_keys, const OptionalTensor &q_positions,                            \
      const OptionalTensor &k_positions, c10::optional<double> scale, double dropout,              \
      std::int64_t seed, bool keys_are_turned

#define POSENC_ATTENTION_NAMES                                                                 \
  inputs, spec, causal, window_left, window_right, key_mask, cu_queries, cu_keys, q_positions, \
      k_positions, scale, dropout, seed, keys_are_turned

// Tensors of the encodings as `wanted` lists them, checked and with contiguous rows.
std::vector<at::Tensor> rows_of_inputs(const std::vector<SpecInput>& wanted, at::TensorList inputs,
                                       const at::Tensor& q);

// What a cache has besides keys and values: the scales of int8 rows, and the table and lengths of a paged one.
struct CacheTensors {
  at::Tensor k_scales, v_scales;
  at::Tensor block_table, lengths;
  [[nodiscard]] bool paged() const { return block_table.defined(); }
};
class HostTable;

inline CacheTensors cache_of(const OptionalTensor& k_scales, const OptionalTensor& v_scales,
                             const OptionalTensor& block_table,
                             const OptionalTensor& cache_lengths) {
  const auto or_undefined = [](const OptionalTensor& x) { return x.value_or(at::Tensor()); };
  return {or_undefined(k_scales), or_undefined(v_scales), or_undefined(block_table),
          or_undefined(cache_lengths)};
}

// A call in the terms of the kernels. Owns what the views point into.
class AttentionArguments {
 public:
  AttentionArguments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                     const std::optional<CacheTensors>& cache = std::nullopt);
  ~AttentionArguments();

  [[nodiscard]] AttentionCall call(const at::Tensor& out, const at::Tensor& lse) const;
  [[nodiscard]] ref::AttentionOptions ref_options() const;
  [[nodiscard]] ref::AttentionShape ref_shape() const;

  at::Tensor q, k, v;
  std::vector<at::Tensor> of_encodings;  // the inputs
  std::shared_ptr<const Prepared> prepared;
  std::vector<Parameters> values;

 private:
  std::vector<ConstTensorView> input_views_;
  std::optional<CacheTensors> cache_;
  std::unique_ptr<const HostTable> table_;  // of a paged cache, whose tensors are pools
  Places places_;
  c10::optional<double> scale_;
  Dropout dropout_;
  bool keys_are_turned_;
};

// Inputs in float64, as the reference takes them.
struct ExactInputs {
  explicit ExactInputs(const AttentionArguments& a)
      : q(values_of(a.q)), k(values_of(a.k)), v(values_of(a.v)) {
    for (const at::Tensor& input : a.of_encodings) of_encodings.push_back(values_of(input));
  }
  [[nodiscard]] ref::AttentionInputs inputs() const {
    return {q, k, v, {of_encodings.begin(), of_encodings.end()}};
  }
  std::vector<double> q, k, v;
  std::vector<std::vector<double>> of_encodings;
};

// The two operators of the dispatcher. Forward: out as q with the channels of v, and the logarithm of each row's sum.
using AttentionForward = std::tuple<at::Tensor, at::Tensor>;
// Gradients of q, k, v, of the inputs and of the joined parameters (zeros where they are not wanted: sums
// over all scores are spared then).
using AttentionBackward =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, std::vector<at::Tensor>, at::Tensor>;

// Throws unless x is [batch, heads, tokens, channels] of a type that int8 rows can be made of.
void check_quantizable(const at::Tensor& x);

// empty_output() of tensors without values.
at::Tensor empty_output_meta(const at::Tensor& q, const at::Tensor& v);

AttentionForward call_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS);
// Decode steps on a cache of another type than the queries or in pages; an Error where a gradient is asked for, or a GPU
// for another type.
at::Tensor call_attention_cache(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const CacheTensors& cache, const at::Tensor& parameters,
                                POSENC_ATTENTION_PARAMETERS);
AttentionBackward call_attention_backward(const at::Tensor& grad_out, const at::Tensor& out,
                                          const at::Tensor& lse, const at::Tensor& q,
                                          const at::Tensor& k, const at::Tensor& v,
                                          const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                                          bool wants_parameters);

}  // namespace posenc::ops
