#include "bench/torch/compositions.h"

namespace posenc::bench {
namespace {

// [H] -> [H, 1, 1].
at::Tensor per_head(const at::Tensor& x) { return x.reshape({-1, 1, 1}); }

at::Tensor fire_bias(const Fire& config, const std::vector<at::Tensor>& p, const Distances& known) {
  const at::Tensor c = p[0].abs();
  const at::Tensor threshold = p[1].abs() * config.init_threshold;
  const auto positions = at::arange(known.distance.size(0), known.distance.options()).unsqueeze(1);
  const at::Tensor reach = at::maximum(positions, threshold);
  const at::Tensor ratio =
      (known.distance * c + 1.0).log() / ((reach * c + 1.0).log() + 1e-6);  // [T, T]
  const at::Tensor hidden = at::relu(ratio.unsqueeze(-1) * p[2] + p[3]);    // [T, T, width]
  return (at::matmul(hidden, p[4].transpose(0, 1)) + p[5]).permute({2, 0, 1});
}

// [H, T, T].
at::Tensor bias_of(const Encoding& encoding, const std::vector<at::Tensor>& p,
                   const Distances& known) {
  if (std::holds_alternative<Alibi>(encoding)) return -per_head(p[0]) * known.distance;
  if (std::holds_alternative<Kerple>(encoding)) {
    const at::Tensor scaled = per_head(p[1].clamp_min(0.01)) * known.distance;
    return -per_head(p[0].clamp_min(0.01)) * (scaled + 1.0).log();
  }
  if (const auto* fire = std::get_if<Fire>(&encoding)) return fire_bias(*fire, p, known);
  const at::Tensor flat = known.buckets.reshape({-1});
  const std::int64_t tokens = known.buckets.size(0);
  if (std::holds_alternative<T5>(encoding)) {
    return p[0].index_select(0, flat).reshape({tokens, tokens, -1}).permute({2, 0, 1});
  }
  return p[0].index_select(1, flat).reshape({-1, tokens, tokens});
}

// As the paper's listing: gates, their sums from the right, and two gathers from q . pos_emb.
at::Tensor cope_logits(const Cope& config, const std::vector<at::Tensor>& p, const Distances& known,
                       const at::Tensor& q, const at::Tensor& scores) {
  const at::Tensor gates = at::sigmoid(scores).masked_fill(known.hidden, 0.0);
  at::Tensor positions = gates.flip(-1).cumsum(-1).flip(-1);
  positions = positions.clamp_max(static_cast<double>(config.npos_max - 1));
  const at::Tensor high = positions.ceil().to(at::kLong);
  const at::Tensor low = positions.floor().to(at::kLong);
  const at::Tensor logits = at::matmul(q, p[0]);  // [B, H, T, npos_max]
  const at::Tensor at_high = logits.gather(-1, high);
  const at::Tensor at_low = logits.gather(-1, low);
  const at::Tensor weight = positions - low;
  return at_high * weight + at_low * (1.0 - weight);
}

}  // namespace

TorchParameters torch_parameters(const Spec& spec, const ModelShape& shape,
                                 const std::vector<Parameters>& values, bool with_gradient) {
  TorchParameters all;
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const auto infos = parameters(spec.encodings[e], shape);
    std::vector<at::Tensor> tensors;
    for (std::size_t p = 0; p < infos.size(); ++p) {
      const at::Tensor exact = at::tensor(values[e][p], at::kDouble).reshape(infos[p].shape);
      tensors.push_back(exact.to(at::kFloat).set_requires_grad(with_gradient));
    }
    all.push_back(std::move(tensors));
  }
  return all;
}

RopeTables rope_tables(const Rope& rope, const ModelShape& shape, std::int64_t tokens,
                       at::ScalarType type) {
  const Rotary rotary = make_rotary(rope, shape, {tokens});
  const at::Tensor inv_freq = at::tensor(rotary.inv_freq.at(0), at::kDouble);
  const at::Tensor angles = at::outer(at::arange(tokens, at::kDouble), inv_freq);
  const bool interleaved = rope.layout == PairLayout::kInterleaved;
  const at::Tensor both =
      interleaved ? angles.repeat_interleave(2, -1) : at::cat({angles, angles}, -1);
  return {both.cos().to(type), both.sin().to(type), interleaved};
}

at::Tensor apply_rope(const at::Tensor& x, const RopeTables& tables) {
  const std::int64_t half = x.size(-1) / 2;
  at::Tensor turned;
  if (tables.interleaved) {
    const at::Tensor even = x.slice(-1, 0, x.size(-1), 2);
    const at::Tensor odd = x.slice(-1, 1, x.size(-1), 2);
    turned = at::stack({-odd, even}, -1).flatten(-2);
  } else {
    turned = at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
  }
  return x * tables.cos + turned * tables.sin;
}

Distances::Distances(std::int64_t tokens, const Spec& spec) {
  const at::Tensor places = at::arange(tokens, at::kLong);
  const at::Tensor apart = places.unsqueeze(1) - places.unsqueeze(0);
  hidden = apart < 0;
  const at::Tensor distances = apart.clamp_min(0);
  distance = distances.to(at::kFloat);
  for (const Encoding& encoding : spec.encodings) {
    if (const auto* t5 = std::get_if<T5>(&encoding)) {
      std::vector<std::int64_t> of(static_cast<std::size_t>(tokens));
      for (std::int64_t d = 0; d < tokens; ++d) {
        of[static_cast<std::size_t>(d)] = t5_bucket(*t5, -d);
      }
      buckets = at::tensor(of, at::kLong).index({distances});
    }
    if (const auto* relative = std::get_if<Relative>(&encoding)) {
      buckets = distances.clamp_max(relative->max_distance);
    }
  }
}

at::Tensor add_encodings(const Spec& spec, const TorchParameters& parameters,
                         const Distances& distances, const at::Tensor& q, at::Tensor scores) {
  const at::Tensor raw = scores;
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const Encoding& encoding = spec.encodings[e];
    const Site site = traits(encoding).site;
    if (site == Site::kBias) scores = scores + bias_of(encoding, parameters[e], distances);
    if (site == Site::kContent) {
      scores = scores + cope_logits(std::get<Cope>(encoding), parameters[e], distances, q, raw);
    }
  }
  return scores;
}

}  // namespace posenc::bench
