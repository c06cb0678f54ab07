#include "posenc/torch/ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch/arguments.h"
#include "torch/autograd.h"

namespace posenc::ops {
namespace {

c10::optional<double> scale_of(const AttentionOptions& o) {
  return o.scale ? c10::optional<double>(*o.scale) : c10::optional<double>();
}

// By name and boxed: these wrappers cost a few pushes, and the schema stays the only list of arguments.
std::vector<c10::IValue> call(const char* name, std::vector<c10::IValue> stack) {
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow((std::string("posenc::") + name).c_str(), "");
  op.callBoxed(&stack);
  return stack;
}

c10::IValue value(const at::Tensor& x) { return x.defined() ? c10::IValue(x) : c10::IValue(); }
c10::IValue list(at::TensorList tensors) { return c10::List<at::Tensor>(tensors.vec()); }

// Options that an operator does not read must have their defaults.
void refuse(const char* op, const char* name, bool given) {
  TORCH_CHECK(!given, "[", op, "] ", name, " is not read here; leave it out");
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::string& spec, at::TensorList parameters,
                     const AttentionOptions& o) {
  refuse("attention", "k_scales", o.k_scales.defined());
  refuse("attention", "v_scales", o.v_scales.defined());
  refuse("attention", "block_table", o.block_table.defined());
  refuse("attention", "cache_lengths", o.cache_lengths.defined());
  return call("attention", {q, k, v, spec, list(parameters), list(o.inputs), o.causal,
                            o.window_left, o.window_right, value(o.key_mask), value(o.cu_queries),
                            value(o.cu_keys), value(o.q_positions), value(o.k_positions),
                            scale_of(o), o.dropout, o.seed, o.keys_are_turned})[0]
      .toTensor();
}

at::Tensor attention_decode(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::string& spec, at::TensorList parameters,
                            const AttentionOptions& o) {
  const char* op = "attention_decode";
  refuse(op, "window_right", o.window_right != -1);
  refuse(op, "cu_queries", o.cu_queries.defined());
  refuse(op, "cu_keys", o.cu_keys.defined());
  refuse(op, "dropout", o.dropout != 0.0);
  return call(op, {q, k, v, spec, list(parameters), list(o.inputs), o.window_left,
                   value(o.key_mask), value(o.q_positions), value(o.k_positions), scale_of(o),
                   o.keys_are_turned, value(o.k_scales), value(o.v_scales), value(o.block_table),
                   value(o.cache_lengths)})[0]
      .toTensor();
}

std::tuple<at::Tensor, at::Tensor> quantize_rows(const at::Tensor& x) {
  const auto out = call("quantize_rows", {x});
  return {out[0].toTensor(), out[1].toTensor()};
}

at::Tensor linear_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::string& spec, at::TensorList parameters,
                            const AttentionOptions& o, const std::string& form, double epsilon) {
  const char* op = "linear_attention";
  refuse(op, "window_left", o.window_left != -1);
  refuse(op, "window_right", o.window_right != -1);
  refuse(op, "inputs", !o.inputs.empty());
  refuse(op, "scale", o.scale.has_value());
  refuse(op, "dropout", o.dropout != 0.0);
  refuse(op, "keys_are_turned", o.keys_are_turned);
  refuse(op, "k_scales", o.k_scales.defined());
  refuse(op, "v_scales", o.v_scales.defined());
  refuse(op, "block_table", o.block_table.defined());
  refuse(op, "cache_lengths", o.cache_lengths.defined());
  return call(op, {q, k, v, spec, list(parameters), form, epsilon, o.causal, value(o.key_mask),
                   value(o.cu_queries), value(o.cu_keys), value(o.q_positions),
                   value(o.k_positions)})[0]
      .toTensor();
}

std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k,
                                        const std::string& spec, at::TensorList parameters,
                                        const at::Tensor& positions, bool transposed) {
  const auto out = call("rope", {q, k, spec, list(parameters), value(positions), transposed});
  return {out[0].toTensor(), out[1].toTensor()};
}

at::Tensor rerotate(const at::Tensor& k, const std::string& spec, const at::Tensor& from_positions,
                    const at::Tensor& to_positions, const std::string& to_spec) {
  return call("rerotate", {k, spec, from_positions, to_positions, to_spec})[0].toTensor();
}

at::Tensor sinusoidal_vectors(const at::Tensor& positions, std::int64_t model_dim,
                              const std::string& spec) {
  return call("sinusoidal_vectors", {positions, model_dim, spec})[0].toTensor();
}

}  // namespace posenc::ops
