// Attention on the CPU: the fused kernels for float32, bfloat16 and float16, the reference for float64.
#include "kernels/attention_call.h"
#include "torch/paged_cache.h"
#include "torch/register.h"

namespace posenc::ops {
namespace {

constexpr const char* kOp = "attention";

// The operator's name, when its tensors have been checked.
const char* checked(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const std::optional<CacheTensors>& cache) {
  check_rows(kOp, "q", q, q);
  if (!cache) {
    check_rows(kOp, "k", k, q);
    check_rows(kOp, "v", v, q);
    return kOp;
  }
  check_cached_rows(kOp, "k", k, q);
  check_cached_rows(kOp, "v", v, q);
  if (cache->k_scales.defined()) check_rows(kOp, "k_scales", cache->k_scales, q, true);
  if (cache->v_scales.defined()) check_rows(kOp, "v_scales", cache->v_scales, q, true);
  return kOp;
}

std::unique_ptr<const HostTable> table_of(const at::Tensor& q,
                                          const std::optional<CacheTensors>& cache) {
  if (!cache || !cache->paged()) return nullptr;
  return std::make_unique<const HostTable>(q, *cache);
}

// What masks and positions are checked with.
at::Tensor keys_of(const at::Tensor& q, const at::Tensor& k, const HostTable* table) {
  return table == nullptr ? k : shape_of_keys(q, pool_of("k", k), *table);
}

// Rows of keys as kernels view them: a pool is never copied.
at::Tensor rows_or_pool(const char* name, const at::Tensor& x, const HostTable* table) {
  return table == nullptr ? with_contiguous_rows(x) : pool_of(name, x);
}

}  // namespace

std::vector<at::Tensor> rows_of_inputs(const std::vector<SpecInput>& wanted, at::TensorList inputs,
                                       const at::Tensor& q) {
  TORCH_CHECK(inputs.size() == wanted.size(), "[", kOp, "] inputs must be ", names_of(wanted),
              " but got ", inputs.size(), " tensors");
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputInfo& info = wanted[i].info;
    check_rows(kOp, info.name.c_str(), inputs[i], q, info.float32);
    rows.push_back(with_contiguous_rows(inputs[i]));
  }
  return rows;
}

AttentionArguments::AttentionArguments(
    const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
    const at::Tensor& parameters, at::TensorList inputs, std::string spec, bool causal,
    std::int64_t window_left, std::int64_t window_right, const OptionalTensor& key_mask,
    const OptionalTensor& cu_queries, const OptionalTensor& cu_keys,
    const OptionalTensor& q_positions, const OptionalTensor& k_positions,
    c10::optional<double> scale, double dropout, std::int64_t seed, bool keys_are_turned,
    const std::optional<CacheTensors>& cache)
    : cache_(cache),
      table_(table_of(q_in, cache)),
      places_(checked(q_in, k_in, v_in, cache), q_in, keys_of(q_in, k_in, table_.get()), causal,
              window_left, window_right, key_mask, cu_queries, cu_keys, q_positions, k_positions),
      scale_(scale),
      dropout_{dropout, static_cast<std::uint64_t>(seed)},
      keys_are_turned_(keys_are_turned) {
  q = with_contiguous_rows(q_in);
  k = rows_or_pool("k", k_in, table_.get());
  v = rows_or_pool("v", v_in, table_.get());
  const std::int64_t tokens =
      table_ != nullptr ? std::max<std::int64_t>(table_->longest(), 0) : k.size(2);
  prepared = prepare(spec, {.head_dim = q.size(3), .heads = q.size(1)}, k.size(1), tokens);
  places_.check_axes(kOp, prepared->plan.terms().axes);
  values = split_parameters(*prepared, parameters);
  std::vector<at::Tensor> given(inputs.begin(), inputs.end());
  for (at::Tensor& input : given) {
    if (table_ != nullptr) input = pool_of("inputs", input);
  }
  of_encodings = rows_of_inputs(prepared->plan.terms().inputs, given, q_in);
  if (q.scalar_type() == at::kDouble) return;  // views have no float64
  for (const at::Tensor& input : of_encodings) input_views_.emplace_back(view_of(input));
  if (!cache_) return;
  for (at::Tensor* scales : {&cache_->k_scales, &cache_->v_scales}) {
    if (scales->defined()) *scales = rows_or_pool("scales", *scales, table_.get());
  }
}
AttentionArguments::~AttentionArguments() = default;

AttentionCall AttentionArguments::call(const at::Tensor& out, const at::Tensor& lse) const {
  AttentionCall call;
  call.plan = &prepared->plan;
  call.allow_reference = true;  // callers are warned (call_capability.h)
  call.parameters = &values;
  call.q = view_of(q);
  call.k = view_of(k);
  call.v = view_of(v);
  call.inputs = input_views_;
  call.out = view_of(out);
  call.lse = {lse.data_ptr<float>(), static_cast<std::size_t>(lse.numel())};
  call.mask = places_.mask();
  call.q_positions = places_.q_positions();
  call.k_positions = places_.k_positions();
  if (scale_.has_value()) call.scale = *scale_;
  call.dropout = dropout_;
  call.keys_are_turned = keys_are_turned_;
  if (cache_ && cache_->k_scales.defined()) call.k_scales = view_of(cache_->k_scales);
  if (cache_ && cache_->v_scales.defined()) call.v_scales = view_of(cache_->v_scales);
  if (table_ != nullptr) call.block_table = table_->of_pages(k.size(2));
  return call;
}

ref::AttentionShape AttentionArguments::ref_shape() const {
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3)};
}

ref::AttentionOptions AttentionArguments::ref_options() const {
  TORCH_CHECK(!keys_are_turned_, "[attention] keys_are_turned is not supported in float64");
  ref::AttentionOptions options;
  if (scale_.has_value()) options.scale = *scale_;
  options.masking = places_.ref_masking();
  options.positions = places_.ref_positions();
  options.lengths = {std::max<std::int64_t>(k.size(2), 1)};
  options.dropout = dropout_;
  return options;
}

namespace {

std::vector<at::Tensor> empty_like_each(at::TensorList tensors) {
  std::vector<at::Tensor> empty;
  for (const at::Tensor& x : tensors) empty.push_back(at::empty(x.sizes(), x.options()));
  return empty;
}

AttentionForward forward_float64(const AttentionArguments& a) {
  const ExactInputs exact(a);
  const auto result =
      ref::attention(a.prepared->spec, a.values, a.ref_shape(), exact.inputs(), a.ref_options());
  const at::Tensor lse =
      at::tensor(result.lse, at::kDouble).reshape({a.q.size(0), a.q.size(1), a.q.size(2)});
  return {tensor_of(result.out, empty_output(a.q, a.v)), lse};
}

AttentionForward attention_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS) {
  const AttentionArguments a(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  if (q.scalar_type() == at::kDouble) return forward_float64(a);
  const at::Tensor out = empty_output(a.q, a.v);
  const at::Tensor lse =
      at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  attention(a.call(out, lse)).throw_if_error();
  return {out, lse};
}

AttentionBackward backward_float64(const at::Tensor& grad_out, const AttentionArguments& a,
                                   const at::Tensor& parameters) {
  const ExactInputs exact(a);
  const auto g = ref::attention_backward(a.prepared->spec, a.values, a.ref_shape(), exact.inputs(),
                                         values_of(grad_out), a.ref_options());
  std::vector<at::Tensor> dinputs;
  for (std::size_t i = 0; i < a.of_encodings.size(); ++i) {
    dinputs.push_back(tensor_of(g.of_encodings[i], a.of_encodings[i]));
  }
  return {tensor_of(g.q, a.q), tensor_of(g.k, a.k), tensor_of(g.v, a.v), dinputs,
          join_parameters(*a.prepared, g.parameters, parameters)};
}

AttentionBackward attention_backward_cpu(const at::Tensor& grad_out, const at::Tensor& out,
                                         const at::Tensor& lse, const at::Tensor& q,
                                         const at::Tensor& k, const at::Tensor& v,
                                         const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                                         bool wants_parameters) {
  const AttentionArguments a(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  if (q.scalar_type() == at::kDouble) return backward_float64(grad_out, a, parameters);
  const at::Tensor rows_out = with_contiguous_rows(out);
  const at::Tensor rows_grad = with_contiguous_rows(grad_out.to(q.scalar_type()));
  const at::Tensor dq = at::empty_like(a.q);
  const at::Tensor dk = at::empty_like(a.k);
  const at::Tensor dv = at::empty_like(a.v);
  const std::vector<at::Tensor> dinputs = empty_like_each(a.of_encodings);
  std::vector<TensorView> dinput_views;
  for (const at::Tensor& dinput : dinputs) dinput_views.push_back(view_of(dinput));
  std::vector<Parameters> dvalues;
  AttentionBackwardCall call;
  call.forward = a.call(rows_out, lse.contiguous());
  call.grad_out = view_of(rows_grad);
  call.dq = view_of(dq);
  call.dk = view_of(dk);
  call.dv = view_of(dv);
  call.dinputs = dinput_views;
  if (wants_parameters) call.dparameters = &dvalues;
  attention_backward(call).throw_if_error();
  return {dq, dk, dv, dinputs,
          wants_parameters ? join_parameters(*a.prepared, dvalues, parameters)
                           : at::zeros_like(parameters)};
}

}  // namespace

POSENC_KERNELS(CPU, m) {
  m.impl("_attention", POSENC_KERNEL(attention_cpu));
  m.impl("_attention_backward", POSENC_KERNEL(attention_backward_cpu));
}

}  // namespace posenc::ops
