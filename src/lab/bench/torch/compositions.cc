#include "bench/torch/compositions.h"

#include "posenc/core/error.h"

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

// The bias of an encoding of site 3, [H, T, T], as its users would compose it: not by posenc's formula.
struct BiasOf {
  const std::vector<at::Tensor>& p;
  const Distances& known;
  const at::Tensor& entries;

  template <class E>
  at::Tensor operator()(const E& /*e*/) const {
    TORCH_CHECK(false, "[bench] ", E::kTraits.name, " has no composition");
  }
  at::Tensor operator()(const Alibi& /*e*/) const { return -per_head(p[0]) * known.distance; }
  at::Tensor operator()(const Kerple& e) const {
    const at::Tensor first = per_head(p[0].clamp_min(0.01));
    const at::Tensor second = per_head(p[1].clamp_min(0.01));
    if (e.kernel == Kerple::Kernel::kLog) return -first * (second * known.distance + 1.0).log();
    return -second * known.distance.pow(first.clamp_max(2.0));
  }
  at::Tensor operator()(const Fire& e) const { return fire_bias(e, p, known); }
  at::Tensor operator()(const T5& /*e*/) const {
    const std::int64_t tokens = entries.size(0);
    const at::Tensor flat = entries.reshape({-1});
    return p[0].index_select(0, flat).reshape({tokens, tokens, -1}).permute({2, 0, 1});
  }
  at::Tensor operator()(const Relative& /*e*/) const {
    const std::int64_t tokens = entries.size(0);
    return p[0].index_select(1, entries.reshape({-1})).reshape({-1, tokens, tokens});
  }
};

// What a bias reads per distance below the diagonal: the entry of its table, or nothing.
template <class E>
at::Tensor entries_of(const E& /*e*/, const at::Tensor& /*distances*/) {
  return {};
}
at::Tensor entries_of(const T5& t5, const at::Tensor& distances) {
  std::vector<std::int64_t> of(distances.size(0));
  for (std::size_t d = 0; d < of.size(); ++d) of[d] = t5_bucket(t5, -static_cast<std::int64_t>(d));
  return at::tensor(of, at::kLong).index({distances});
}
at::Tensor entries_of(const Relative& relative, const at::Tensor& distances) {
  return distances.clamp_max(relative.max_distance);
}

// Which fields the compositions know. An encoding without one has no baseline in the tables.
struct Composed {
  template <class E>
  bool operator()(const E& /*e*/) const {
    return false;
  }
  bool operator()(const None& /*e*/) const { return true; }
  bool operator()(const Rope& e) const {
    return e.theta.size() == 1 && e.rotary_dim == 0 && e.dim_offset == 0 && !e.inverse &&
           !e.values && !e.reads_input() && std::holds_alternative<SingleAxis>(e.axes) &&
           !std::holds_alternative<LearnableSchedule>(e.schedule);
  }
  bool operator()(const Alibi& /*e*/) const { return true; }
  bool operator()(const T5& /*e*/) const { return true; }
  bool operator()(const Kerple& /*e*/) const { return true; }
  bool operator()(const Fire& /*e*/) const { return true; }
  bool operator()(const Relative& e) const { return !e.bidirectional; }
  bool operator()(const Cope& e) const {
    return e.variant == Cope::Variant::kInterpolate && e.gate_source == Cope::GateSource::kKey &&
           e.logit_scale == Cope::LogitScale::kNone && !e.gates_see_bias;
  }
};

void require_composed(const Encoding& encoding) {
  if (is_composed(encoding)) return;
  throw Error(ErrorKind::kUnsupported, {.scope = "bench",
                                        .key = to_text(Spec{{encoding}}),
                                        .rule = "has no composition of libtorch operations",
                                        .value = "",
                                        .hint = ""});
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

bool is_composed(const Encoding& encoding) { return std::visit(Composed{}, encoding); }

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
  require_composed(rope);
  const Rotary rotary = make_rotary(rope, shape, {tokens});
  TORCH_CHECK(rotary.softmax_factor == 1.0, "[bench] a factor of the scores is not composed");
  const at::Tensor inv_freq = at::tensor(rotary.inv_freq.at(0), at::kDouble);
  const at::Tensor angles = at::outer(at::arange(tokens, at::kDouble), inv_freq);
  const bool interleaved = rope.layout == PairLayout::kInterleaved;
  const at::Tensor both =
      interleaved ? angles.repeat_interleave(2, -1) : at::cat({angles, angles}, -1);
  const double factor = rotary.attention_factor;
  return {(factor * both.cos()).to(type), (factor * both.sin()).to(type), interleaved};
}

std::vector<RopeTables> rope_tables(const Spec& spec, const ModelShape& shape, std::int64_t tokens,
                                    at::ScalarType type) {
  std::vector<RopeTables> all;
  for (const Encoding& encoding : spec.encodings) {
    require_composed(encoding);
    if (const auto* rope = std::get_if<Rope>(&encoding)) {
      all.push_back(rope_tables(*rope, shape, tokens, type));
    }
  }
  return all;
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
    entries.push_back(
        std::visit([&](const auto& e) { return entries_of(e, distances); }, encoding));
  }
}

at::Tensor add_encodings(const Spec& spec, const TorchParameters& parameters,
                         const Distances& distances, const at::Tensor& q, at::Tensor scores) {
  const at::Tensor raw = scores;
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const Encoding& encoding = spec.encodings[e];
    require_composed(encoding);
    const auto add = [&]<class E>(const E& config) {
      if constexpr (E::kTraits.site == Site::kBias) {
        scores = scores + BiasOf{parameters[e], distances, distances.entries[e]}(config);
      } else if constexpr (std::same_as<E, Cope>) {
        scores = scores + cope_logits(config, parameters[e], distances, q, raw);
      }
    };
    std::visit(add, encoding);
  }
  return scores;
}

}  // namespace posenc::bench
