// The dispatcher's side of tables and of looks inside: shapes without values, and that nothing is differentiated.
#include <torch/library.h>

#include <algorithm>

#include "torch/attention_arguments.h"

namespace posenc::ops {
namespace {

at::Tensor t5_buckets_meta(const at::Tensor& relative, std::string /*spec*/) {
  return relative.new_empty_symint(relative.sym_sizes(), at::kLong);
}

at::Tensor sinusoidal_meta(const at::Tensor& positions, std::int64_t model_dim,
                           std::string /*spec*/) {
  std::vector<c10::SymInt> shape = positions.sym_sizes().vec();
  shape.emplace_back(model_dim);
  return positions.new_empty_symint(shape, at::kDouble);
}

std::tuple<at::Tensor, at::Tensor> inside_meta(const at::Tensor& q, const at::Tensor& k,
                                               const at::Tensor& v,
                                               const at::Tensor& /*parameters*/,
                                               POSENC_ATTENTION_PARAMETERS) {
  (void)std::make_tuple(POSENC_ATTENTION_NAMES);
  check_rows("attention", "q", q, q);
  check_rows("attention", "k", k, q);
  check_rows("attention", "v", v, q);
  const Spec parsed = parse_any_spec(spec);
  const bool counts =
      std::any_of(parsed.encodings.begin(), parsed.encodings.end(),
                  [](const Encoding& encoding) { return std::holds_alternative<Cope>(encoding); });
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<c10::SymInt> shape = q.sym_sizes().slice(0, 3).vec();
  shape.push_back(k.sym_size(2));
  const at::Tensor weights = q.new_empty_symint(shape, type);
  return {weights, counts ? at::empty_like(weights) : q.new_empty({0}, type)};
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, Meta, m) {
  m.impl("t5_buckets", t5_buckets_meta);
  m.impl("sinusoidal_vectors", sinusoidal_meta);
  m.impl("_attention_inside", inside_meta);
}
// Nothing here is differentiated. PyTorch 1.13 wants to hear that of tensors without values.
TORCH_LIBRARY_IMPL(posenc, Autograd, m) {
  for (const char* name : {"t5_buckets", "sinusoidal_vectors", "_attention_inside"}) {
    m.impl(name, torch::CppFunction::makeFallthrough());
  }
}

}  // namespace posenc::ops
