#include "cases/embedding_problem.h"

#include <cmath>

#include "posenc/kernels/reference.h"

namespace posenc::cases {

EmbeddingProblem::EmbeddingProblem(const Case& config)
    : c(config),
      spec(parse_spec(c.spec)),
      x({c.batch, 1, c.queries, c.head_dim}, c.dtype, c.order),
      y(x),
      grad(x) {
  Rng rng(4);
  x.fill_random(rng);
  grad.fill_random(rng);
  y.fill(NAN);
  parameters =
      random_parameters(spec, {.head_dim = c.head_dim, .heads = 1, .model_dim = c.head_dim}, rng);
  for (std::int64_t i = 0; i < c.batch * c.queries; ++i) ids.push_back((i * 7) % 16);
}

PositionsView EmbeddingProblem::positions() const {
  PositionsView view;
  view.ids = ids.data();
  view.batch_stride = c.queries;
  return view;
}

EmbeddingCall EmbeddingProblem::call() {
  EmbeddingCall call;
  call.spec = &spec;
  call.parameters = &parameters;
  call.x = x.view();
  call.y = y.view();
  call.positions = positions();
  return call;
}

void EmbeddingProblem::forward() { add_embeddings(call()).throw_if_error(); }

void EmbeddingProblem::backward() {
  add_embeddings_gradient({&spec, &parameters, grad.view(), positions(), &dparameters})
      .throw_if_error();
}

std::vector<Result> EmbeddingProblem::results(bool with_backward) const {
  std::vector<Result> all = {{"y", ResultKind::kValue, y.values()}};
  if (with_backward) append_parameter_gradients(spec, dparameters, 1.0, all);
  return all;
}

std::vector<Result> EmbeddingProblem::expected(bool with_backward) const {
  const ref::EmbeddingShape shape{c.batch, c.queries, c.head_dim};
  std::vector<Result> all = {
      {"y", ResultKind::kValue, ref::add_embeddings(spec, parameters, shape, x.values(), ids)}};
  if (!with_backward) return all;
  const auto gradients = ref::add_embeddings_backward(spec, parameters, shape, grad.values(), ids);
  append_parameter_gradients(spec, gradients.parameters, 1.0, all);
  return all;
}

std::vector<Variable> EmbeddingProblem::variables() {
  exact_x_ = x.values();
  exact_parameters_ = parameters;
  std::vector<Variable> all;
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    for (std::size_t p = 0; p < parameters[e].size(); ++p) {
      all.push_back({parameter_label(spec, e, p), &exact_parameters_[e][p]});
    }
  }
  return all;
}

double EmbeddingProblem::loss() {
  return inner_product(
      grad.values(), ref::add_embeddings(spec, exact_parameters_, {c.batch, c.queries, c.head_dim},
                                         exact_x_, ids));
}

}  // namespace posenc::cases
