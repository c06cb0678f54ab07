#include "support/attention_case.h"

#include <algorithm>
#include <cmath>

#include "cases/attention_data.h"

namespace posenc::testing {
namespace {

Parameters random_values(const Encoding& encoding, const ModelShape& shape, Rng& rng) {
  Parameters values = initial_parameters(parameters(encoding, shape), rng);
  for (std::vector<double>& parameter : values) {
    for (double& x : parameter) {
      // KERPLE clamps small and large values, where its gradient jumps.
      x = std::holds_alternative<Kerple>(encoding) ? rng.uniform(0.2, 1.5) : x + 0.3 * rng.normal();
    }
  }
  return values;
}

}  // namespace

std::vector<double> random_normal(std::int64_t count, Rng& rng, double deviation) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& x : values) x = deviation * rng.normal();
  return values;
}

ref::SpecParameters random_parameters(const Spec& spec, const ModelShape& shape, Rng& rng) {
  ref::SpecParameters all;
  for (const Encoding& encoding : spec.encodings) {
    all.push_back(random_values(encoding, shape, rng));
  }
  return all;
}

ref::AttentionOutput AttentionCase::forward() const {
  return ref::attention(spec, parameters, shape, inputs(), options);
}

ref::AttentionGradients AttentionCase::backward() const {
  return ref::attention_backward(spec, parameters, shape, inputs(), grad_out, options);
}

AttentionCase random_case(std::string_view spec, const ref::AttentionShape& shape,
                          const ref::AttentionOptions& options, std::uint64_t seed) {
  Rng rng(seed);
  AttentionCase problem;
  problem.spec = parse_spec(spec);
  problem.shape = shape;
  problem.options = options;
  if (chain_of(problem.spec)) problem.options.masking.causal = true;
  problem.parameters = random_parameters(
      problem.spec, {.head_dim = shape.head_dim, .heads = shape.heads, .model_dim = 0}, rng);
  problem.q = random_normal(shape.query_size(), rng);
  problem.k = random_normal(shape.key_size(), rng);
  problem.v = random_normal(shape.value_size(), rng);
  for (const SpecInput& input : problem.token_inputs()) {
    const std::int64_t heads = input.info.head_count(shape.heads, shape.kv_heads);
    problem.of_encodings.push_back(
        random_normal(shape.batch * heads * shape.keys * input.info.channels, rng));
    cases::fit_input(input.info, problem.of_encodings.back());
  }
  problem.grad_out = random_normal(shape.out_size(), rng);
  return problem;
}

GradientReport compare_all_gradients(AttentionCase& problem,
                                     const ref::AttentionGradients& gradients,
                                     const std::function<double()>& loss) {
  GradientReport report;
  compare_gradient("q", problem.q, gradients.q, loss, report);
  compare_gradient("k", problem.k, gradients.k, loss, report);
  compare_gradient("v", problem.v, gradients.v, loss, report);
  const std::vector<SpecInput> inputs = problem.token_inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    compare_gradient(inputs[i].info.name, problem.of_encodings[i], gradients.of_encodings[i], loss,
                     report);
  }
  for (std::size_t e = 0; e < problem.parameters.size(); ++e) {
    for (std::size_t p = 0; p < problem.parameters[e].size(); ++p) {
      const std::string name(traits(problem.spec.encodings[e]).name);
      compare_gradient(name + " parameter " + std::to_string(p), problem.parameters[e][p],
                       gradients.parameters[e][p], loss, report);
    }
  }
  return report;
}

GradientReport compare_all_gradients(AttentionCase& problem) {
  return compare_all_gradients(problem, problem.backward(), [&] {
    return inner_product(problem.forward().out, problem.grad_out);
  });
}

double inner_product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t n = 0; n < a.size(); ++n) sum += a[n] * b[n];
  return sum;
}

double largest_mixed_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return HUGE_VAL;
  double worst = 0.0;
  for (std::size_t n = 0; n < got.size(); ++n) {
    const double here = std::abs(got[n] - want[n]) / (1.0 + std::abs(want[n]));
    if (std::isnan(here)) return HUGE_VAL;
    worst = std::max(worst, here);
  }
  return worst;
}

ref::AttentionOptions causal() {
  ref::AttentionOptions options;
  options.masking.causal = true;
  return options;
}

std::vector<ref::AttentionOptions> causal_settings() {
  std::vector<ref::AttentionOptions> all(4, causal());
  all[1].masking.window_left = 3;
  all[2].masking.key_mask = {1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1};
  all[3].masking.cu_queries = {0, 4, 9};
  return all;
}

const std::vector<std::string>& many_specs() {
  static const std::vector<std::string> specs = {
      "none",
      "rope",
      "rope(layout=interleaved, rotary_dim=2, dim_offset=1)",
      "rope(theta=[10, 1000])",
      "rope(schedule=learnable)",
      "rope(schedule=learnable, theta=[10, 1000], inverse=true, layout=interleaved)",
      "rope(schedule=learnable, axes=axial(axes=2))",
      "rope(axes=mrope(sections=[1, 1]))",
      "rope(schedule=yarn(factor=4, original_max_position_embeddings=8, mscale=0.7, "
      "mscale_all_dim=0.5, softmax_mscale=true))",
      "rope(schedule=dynamic(factor=2, max_position_embeddings=4))",
      "rope(precision=hf)",
      "xpos(scale_base=8)",
      "xpos(layout=interleaved, rotary_dim=2, scale_base=8) + rope(schedule=learnable)",
      "alibi(trainable=true)",
      "alibi(bidirectional=true)",
      "t5(num_buckets=6, max_distance=5)",
      "t5(num_buckets=8, max_distance=5, bidirectional=true)",
      "kerple",
      "kerple(kernel=power)",
      "fire(width=3, init_threshold=2.7)",
      "relative(max_distance=2)",
      "relative(max_distance=2, bidirectional=true)",
      "cope(npos_max=3)",
      "cope(npos_max=16, logit_scale=sqrt_dim)",
      "cope(npos_max=3, gate_source=separate)",
      "cope(npos_max=3, gate_source=value)",
      "cope(npos_max=3, variant=alibi)",
      "cope(npos_max=3, variant=alibi, gate_source=value, logit_scale=sqrt_dim)",
      "rope + alibi",
      "rope + cope(npos_max=3)",
      "rope(schedule=learnable) + cope(npos_max=3)",
      "rope(schedule=learnable) + cope(npos_max=3, gate_source=separate)",
      "alibi + cope(npos_max=3)",
      "alibi + cope(npos_max=3, gates_see_bias=true)",
      "fire(width=3, init_threshold=2.7) + cope(npos_max=3, gates_see_bias=true, "
      "gate_source=value)",
      "sink",
      "alibi + cope(npos_max=3) + softcap(cap=1.5)",
      "cope(npos_max=3) + sink + sink(init=1)",
      "kerple + t5(num_buckets=6, max_distance=5) + cope(npos_max=3, gates_see_bias=true, "
      "gate_source=separate)",
      "rope(schedule=learnable) + relative(max_distance=2) + cope(npos_max=3, gates_see_bias=true)",
      "cope(npos_max=3) + cope(npos_max=5, gate_source=separate, variant=alibi)",
      "alibi + alibi(slopes=geometric)",
      "rope(angles=input)",
      "rope(angles=input, running=true, inverse=true, layout=interleaved) + cope(npos_max=3)",
      "rope(angles=input_position, running=true, theta=[10, 100])",
      "rope(values=true)",
      "rope(schedule=learnable, values=true) + rope(angles=input, values=true, rotary_dim=2)",
      "temperature(kind=log, floor=2, scale=0.5)",
      "rope(schedule=learnable) + temperature(kind=ssmax) + cope(npos_max=3)",
      "temperature(kind=ssmax) + temperature(kind=ssmax) + temperature(floor=2)",
      "relative_query(extent=3, beyond=clip)",
      "relative_query(extent=3, bidirectional=true, per_head=true, scaling=none)",
      "rope + relative_query(extent=2, source=input, rank=3) + alibi + cope(npos_max=3)",
      "relative_query(extent=2, source=input, rank=2) + relative_query(extent=4, beyond=clip)",
      "relative_query(extent=3, beyond=clip, side=key)",
      "rope + relative_query(extent=3, bidirectional=true, side=key, per_head=true)",
      "relative_query(extent=4, bidirectional=true, buckets=log, max_distance=6, beyond=clip)",
      "rope(schedule=learnable) + relative_query(extent=3, vectors=true) + temperature(kind=ssmax)",
      "relative_2d(height=2, width=3)",
      "relative_2d(height=3, width=2, separable=true) + cope(npos_max=3, gates_see_bias=true)",
      "grape_ap(rank=3)",
      "rope + fox(bidirectional=true) + fox",
      "rope + grape_ap(rank=2, scale=0.7, separate=true) + stick_breaking",
      "stick_breaking",
      "rope + alibi + fox + cope(npos_max=3) + softcap(cap=1.5) + stick_breaking",
      "path",
      "path + fox(scaled=true) + alibi + sink",
      "path + temperature(kind=ssmax) + cope(npos_max=3) + softcap(cap=1.5) + stick_breaking",
      "wall",
      "wall + fox + relative_query(extent=3) + cope(npos_max=3) + temperature(kind=ssmax)",
      "wall + softcap(cap=1.5) + stick_breaking",
  };
  return specs;
}

}  // namespace posenc::testing
