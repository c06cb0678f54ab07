#include <ATen/Parallel.h>
#include <torch/version.h>

#include <cmath>

#include "bench/baseline.h"
#include "bench/torch/compositions.h"
#include "cases/attention_data.h"
#include "cases/rope_problem.h"

namespace posenc::bench {
namespace {

using cases::Case;
using cases::Operation;

at::ScalarType torch_type(DType dtype) {
  if (dtype == DType::kFloat32) return at::kFloat;
  return dtype == DType::kBfloat16 ? at::kBFloat16 : at::kHalf;
}

// A tensor on the storage of a case.
at::Tensor on(cases::Tensor& tensor) {
  const TensorView view = tensor.view();
  return at::from_blob(view.data, view.shape, view.stride,
                       at::TensorOptions(torch_type(view.dtype)));
}

std::vector<double> values_of(const at::Tensor& x) {
  const at::Tensor wide = x.detach().to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

class RopeBaseline : public Baseline {
 public:
  explicit RopeBaseline(cases::RopeProblem& p)
      : q_(on(p.q)),
        k_(on(p.k)),
        tables_(rope_tables(std::get<Rope>(p.spec.encodings[0]), p.shape, p.c.queries,
                            torch_type(p.c.dtype))),
        exact_(rope_tables(std::get<Rope>(p.spec.encodings[0]), p.shape, p.c.queries, at::kFloat)) {
  }
  void run(bool /*with_backward*/) override {
    q_out_ = apply_rope(q_, tables_);
    k_out_ = apply_rope(k_, tables_);
  }
  [[nodiscard]] std::vector<double> float32_out() override {
    return values_of(apply_rope(q_.to(at::kFloat), exact_));
  }

 private:
  at::Tensor q_, k_, q_out_, k_out_;
  RopeTables tables_;
  RopeTables exact_;
};

// Softmax attention with everything materialised.
class AttentionBaseline : public Baseline {
 public:
  explicit AttentionBaseline(cases::AttentionData& d)
      : spec_(d.spec),
        shape_(d.shape),
        decoding_(d.c.queries < d.c.keys),
        parameter_values_(d.parameters),
        q_(on(d.q)),
        k_(on(d.k)),
        v_(on(d.v)),
        grad_(on(d.grad_out)),
        distances_(decoding_ ? 1 : d.c.keys, d.spec),
        ropes_(rope_tables(spec_, shape_, d.c.keys, torch_type(d.c.dtype))) {}

  void run(bool with_backward) override {
    const at::Tensor q = q_.detach().set_requires_grad(with_backward);
    const at::Tensor k = k_.detach().set_requires_grad(with_backward);
    const at::Tensor v = v_.detach().set_requires_grad(with_backward);
    const TorchParameters parameters =
        torch_parameters(spec_, shape_, parameter_values_, with_backward);
    const at::Tensor out = forward(q, k, v, parameters);
    if (with_backward) out.backward(grad_);
  }
  [[nodiscard]] std::vector<double> float32_out() override {
    const TorchParameters parameters = torch_parameters(spec_, shape_, parameter_values_, false);
    return values_of(forward(q_.to(at::kFloat), k_.to(at::kFloat), v_.to(at::kFloat), parameters));
  }

 private:
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const TorchParameters& parameters) const {
    at::Tensor turned_q = q;
    at::Tensor turned_k = k;
    for (const RopeTables& tables : ropes_) {
      turned_q = apply_rope(turned_q, tables);
      turned_k = apply_rope(turned_k, tables);
    }
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
    at::Tensor scores = at::matmul(turned_q * scale, turned_k.transpose(-2, -1));
    scores = add_encodings(spec_, parameters, distances_, q, scores);
    if (!decoding_) scores = scores.masked_fill(distances_.hidden, -INFINITY);
    return at::matmul(at::softmax(scores, -1), v);
  }

  Spec spec_;
  ModelShape shape_;
  bool decoding_;  // one query, which sees every key
  std::vector<Parameters> parameter_values_;
  at::Tensor q_, k_, v_, grad_;
  Distances distances_;
  std::vector<RopeTables> ropes_;
};

// Equation 19 of the RoPE paper with the matrix of products materialised.
class LinearAttentionBaseline : public Baseline {
 public:
  explicit LinearAttentionBaseline(cases::AttentionData& d)
      : q_(on(d.q)),
        k_(on(d.k)),
        v_(on(d.v)),
        grad_(on(d.grad_out)),
        tables_(rope_tables(std::get<Rope>(d.spec.encodings[0]), d.shape, d.c.keys, at::kFloat)) {}

  void run(bool with_backward) override {
    const at::Tensor q = q_.detach().set_requires_grad(with_backward);
    const at::Tensor k = k_.detach().set_requires_grad(with_backward);
    const at::Tensor v = v_.detach().set_requires_grad(with_backward);
    const at::Tensor phi_q = at::elu(q) + 1.0;
    const at::Tensor phi_k = at::elu(k) + 1.0;
    const at::Tensor plain = at::matmul(phi_q, phi_k.transpose(-2, -1)).tril();
    const at::Tensor turned =
        at::matmul(apply_rope(phi_q, tables_), apply_rope(phi_k, tables_).transpose(-2, -1)).tril();
    const at::Tensor out = at::matmul(turned, v) / plain.sum(-1, true);
    if (with_backward) out.backward(grad_);
    out_ = out.detach();
  }
  [[nodiscard]] std::vector<double> float32_out() override { return values_of(out_); }

 private:
  at::Tensor q_, k_, v_, grad_, out_;
  RopeTables tables_;
};

bool is_plain(const Case& c) {
  const bool one_mask = c.window_left < 0 && c.window_right < 0 && !c.padding &&
                        c.cumulative.empty() && c.cumulative_keys.empty() && c.dropout == 0.0;
  const bool one_shape = c.heads == c.kv_heads && (c.queries == c.keys || c.queries == 1);
  return one_mask && one_shape && c.positions == cases::PositionForm::kPlaces &&
         (c.op == Operation::kRope || c.causal);
}

}  // namespace

std::unique_ptr<Baseline> make_baseline(const Case& c, cases::Problem& problem,
                                        std::string& why_not) {
  const Spec spec = parse_spec(c.spec);
  if (!is_plain(c)) why_not = "the composition is causal and has no other mask";
  // One query against a cache has other places and distances, which are not computed here.
  if (c.queries < c.keys && !spec.encodings.empty()) {
    why_not = "decode steps with encodings are not composed";
  }
  for (const Encoding& e : spec.encodings) {
    if (is_composed(e)) continue;
    why_not = to_text(Spec{{e}}) + " has no composition of libtorch operations";
  }
  if (!why_not.empty()) return nullptr;
  if (auto* rope = dynamic_cast<cases::RopeProblem*>(&problem)) {
    return std::make_unique<RopeBaseline>(*rope);
  }
  if (auto* linear = dynamic_cast<cases::LinearAttentionProblem*>(&problem)) {
    return std::make_unique<LinearAttentionBaseline>(linear->data);
  }
  if (auto* attention = dynamic_cast<cases::AttentionProblem*>(&problem)) {
    return std::make_unique<AttentionBaseline>(attention->data);
  }
  why_not = std::string(cases::operation_name(c.op)) + " is not composed";
  return nullptr;
}

std::string baseline_library() { return "libtorch " TORCH_VERSION; }
void set_baseline_threads(int threads) { at::set_num_threads(threads); }
void set_baseline_onednn(bool on) { at::globalContext().setUserEnabledMkldnn(on); }

}  // namespace posenc::bench
