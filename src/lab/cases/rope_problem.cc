#include "cases/rope_problem.h"

#include <cmath>

#include "posenc/core/error.h"

namespace posenc::cases {
namespace {

std::vector<double> first_alpha(const Encoding& encoding, const ModelShape& shape) {
  const auto* rope = std::get_if<Rope>(&encoding);
  if (rope == nullptr || !std::holds_alternative<LearnableSchedule>(rope->schedule)) return {};
  Rng rng(5);
  std::vector<double> alpha = initial_parameters(parameters(encoding, shape), rng)[0];
  for (double& x : alpha) x += 0.1 * rng.normal();
  return alpha;
}

// Ids that jump about, one coordinate per axis, unless the form says where tokens stand.
std::vector<std::int64_t> positions_of(const Case& c, std::int64_t axes,
                                       const std::vector<std::int64_t>& form) {
  if (c.positions == PositionForm::kOffsets) return ref::offset_positions(form, c.queries);
  if (c.positions == PositionForm::kPacked) return ref::packed_positions(form);
  Rng rng(7);
  std::vector<std::int64_t> ids;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t t = 0; t < c.queries; ++t) {
      const bool place = c.positions == PositionForm::kPlaces;
      for (std::int64_t a = 0; a < axes; ++a) ids.push_back(place ? t : rng.integer(0, 99));
    }
  }
  return ids;
}

std::vector<std::int64_t> form_of(const Case& c) {
  if (c.positions == PositionForm::kPacked) return c.cumulative;
  if (c.positions != PositionForm::kOffsets) return {};
  std::vector<std::int64_t> offsets;
  for (std::int64_t b = 0; b < c.batch; ++b) offsets.push_back(c.offset + 7 * b);
  return offsets;
}

}  // namespace

RopeProblem::RopeProblem(const Case& config)
    : c(config),
      spec(parse_spec(c.spec)),
      shape{.head_dim = c.head_dim, .heads = c.heads},
      alpha(first_alpha(spec.encodings.at(0), shape)),
      tables(rotary(alpha), c.policy),
      q({c.batch, c.heads, c.queries, c.head_dim}, c.dtype, c.order),
      k({c.batch, c.kv_heads, c.queries, c.head_dim}, c.dtype, c.order) {
  Rng rng(3);
  q.fill_random(rng);
  k.fill_random(rng);
  form = form_of(c);
  ids = positions_of(c, tables.rotary().axes.axes, form);
  narrow.assign(ids.begin(), ids.end());
  if (c.in_place) return;
  q_out = grad_q = dq = q;
  k_out = grad_k = dk = k;
  grad_q.fill_random(rng);
  grad_k.fill_random(rng);
  for (Tensor* t : {&q_out, &k_out, &dq, &dk}) t->fill(NAN);
}

Rotary RopeProblem::rotary(const std::vector<double>& values) const {
  return rotary_of(spec.encodings[0], shape, {std::max<std::int64_t>(c.queries, 1)}, values);
}

PositionsView RopeProblem::positions() const {
  PositionsView view;
  const std::int64_t axes = tables.rotary().axes.axes;
  view.batch_stride = c.queries * axes;
  view.token_stride = axes;
  view.axis_stride = axes > 1 ? 1 : 0;
  if (c.positions == PositionForm::kIds64) view.ids = ids.data();
  if (c.positions == PositionForm::kIds32) view.ids = narrow.data();
  view.ids_are_64_bit = c.positions != PositionForm::kIds32;
  if (c.positions == PositionForm::kOffsets) view.offsets = form;
  if (c.positions == PositionForm::kPacked) view.cumulative = form;
  return view;
}

RopeCall RopeProblem::call() {
  RopeCall call;
  call.q = q.view();
  call.k = k.view();
  call.q_out = c.in_place ? q.view() : q_out.view();
  call.k_out = c.in_place ? k.view() : k_out.view();
  call.tables = &tables;
  call.positions = positions();
  return call;
}

void RopeProblem::forward() { posenc::rope(call()).throw_if_error(); }

void RopeProblem::backward() {
  if (c.in_place) {
    throw Error(ErrorKind::kUnsupported,
                {.scope = "rope case", .rule = "in place keeps no inputs to differentiate by"});
  }
  RopeCall transposed = call();
  transposed.q = grad_q.view();
  transposed.k = grad_k.view();
  transposed.q_out = dq.view();
  transposed.k_out = dk.view();
  transposed.transposed = true;
  posenc::rope(transposed).throw_if_error();
  if (!learns()) return;
  dinv_freq.assign(tables.rotary().groups() * tables.rotary().pairs(), NAN);
  RopeFrequencyGradientCall gradient;
  gradient.q = q.view();
  gradient.k = k.view();
  gradient.dq_out = grad_q.view();
  gradient.dk_out = grad_k.view();
  gradient.tables = &tables;
  gradient.positions = positions();
  gradient.dinv_freq = dinv_freq;
  rope_frequency_gradient(gradient).throw_if_error();
}

std::vector<Result> RopeProblem::results(bool with_backward) const {
  std::vector<Result> all = {{"q_out", ResultKind::kValue, (c.in_place ? q : q_out).values()},
                             {"k_out", ResultKind::kValue, (c.in_place ? k : k_out).values()}};
  if (!with_backward) return all;
  all.push_back({"dq", ResultKind::kValue, dq.values()});
  all.push_back({"dk", ResultKind::kValue, dk.values()});
  if (learns()) {
    all.push_back({"dalpha", ResultKind::kParameterGradient,
                   ref::alpha_gradient(tables.rotary(), dinv_freq)});
  }
  return all;
}

std::vector<Result> RopeProblem::expected(bool with_backward) const {
  const Rotary& turn = tables.rotary();
  const ref::RopeShape q_shape{c.batch, c.heads, c.queries, c.head_dim};
  const ref::RopeShape k_shape{c.batch, c.kv_heads, c.queries, c.head_dim};
  std::vector<Result> all = {
      {"q_out", ResultKind::kValue, ref::rope(turn, Role::kQuery, q_shape, q.values(), ids)},
      {"k_out", ResultKind::kValue, ref::rope(turn, Role::kKey, k_shape, k.values(), ids)}};
  if (!with_backward) return all;
  const auto of_q =
      ref::rope_backward(turn, Role::kQuery, q_shape, q.values(), ids, grad_q.values());
  const auto of_k = ref::rope_backward(turn, Role::kKey, k_shape, k.values(), ids, grad_k.values());
  all.push_back({"dq", ResultKind::kValue, of_q.x});
  all.push_back({"dk", ResultKind::kValue, of_k.x});
  if (learns()) {
    std::vector<double> sum = of_q.inv_freq;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_k.inv_freq[i];
    all.push_back({"dalpha", ResultKind::kParameterGradient, ref::alpha_gradient(turn, sum)});
  }
  return all;
}

std::vector<Variable> RopeProblem::variables() {
  exact_ = {q.values(), k.values(), alpha};
  std::vector<Variable> all = {{"q", &exact_.q}, {"k", &exact_.k}};
  if (learns()) all.push_back({"alpha", &exact_.alpha});
  return all;
}

double RopeProblem::loss() {
  const Rotary turn = rotary(exact_.alpha);
  const auto of_q =
      ref::rope(turn, Role::kQuery, {c.batch, c.heads, c.queries, c.head_dim}, exact_.q, ids);
  const auto of_k =
      ref::rope(turn, Role::kKey, {c.batch, c.kv_heads, c.queries, c.head_dim}, exact_.k, ids);
  return inner_product(grad_q.values(), of_q) + inner_product(grad_k.values(), of_k);
}

}  // namespace posenc::cases
