#include "torch/device/biases.h"

#include "encodings/score_formulas.h"
#include "kernels/attention_plan.h"

namespace posenc::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

// [H] -> [H, 1, ..] with as many dimensions after it as the distances have.
at::Tensor per_head(const at::Tensor& x, const at::Tensor& distance) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(distance.dim()) + 1, 1);
  shape[0] = x.size(0);
  return x.reshape(shape);
}

at::Tensor seen_distance(const Alibi& config, const at::Tensor& distance) {
  return config.bidirectional ? distance.abs() : distance.clamp_min(0);
}

// What KERPLE's formula reads of its parameters, with the gradient that the clamps leave.
struct KerpleValues {
  KerpleValues(const Kerple& config, const Tensors& parameters)
      : p(at_least_smallest(parameters[0])), a(at_least_smallest(parameters[1])) {
    if (config.kernel != Kerple::Kernel::kPower) return;
    const double most = formulas::kKerpleLargestPower;
    p = at::where(p >= most, at::full({}, most, p.options()), p);
  }
  // Not clamp_min(): its gradient is 0 for a NaN, and at the bound it is not.
  static at::Tensor at_least_smallest(const at::Tensor& x) {
    const double least = formulas::kKerpleSmallest;
    return at::where(x <= least, at::full({}, least, x.options()), x);
  }
  at::Tensor p;
  at::Tensor a;
};

at::Tensor kerple_bias(const Kerple& config, const Tensors& parameters, const at::Tensor& lengths) {
  const KerpleValues values(config, parameters);
  const at::Tensor apart = lengths.to(values.p.scalar_type());
  const at::Tensor p = per_head(values.p, lengths);
  const at::Tensor a = per_head(values.a, lengths);
  if (config.kernel == Kerple::Kernel::kLog) return -p * (a * apart).log1p();
  // Of distance 0 the power is 0, and its derivative too, which 0 * log 0 would not be.
  return -a * at::where(apart > 0, apart.clamp_min(1).pow(p), p * 0);
}

// The bucket of each distance, found on the host, where the formula is.
at::Tensor t5_entries(const T5& config, std::int64_t least, std::int64_t most) {
  at::Tensor entries = at::empty({most - least + 1}, at::kLong);
  auto* at = entries.data_ptr<std::int64_t>();
  for (std::int64_t d = least; d <= most; ++d) *at++ = t5_bucket(config, -d);
  return entries;
}

at::Tensor relative_entries(const Relative& config, const at::Tensor& distance) {
  const std::int64_t lowest = config.bidirectional ? -config.max_distance : 0;
  return distance.clamp(lowest, config.max_distance) - lowest;
}

// What each bias reads of all distances from the first to the last.
at::Tensor read_of(const Alibi& e, const at::Tensor& d) {
  return seen_distance(e, d).to(at::kFloat);
}
at::Tensor read_of(const Kerple& /*e*/, const at::Tensor& d) { return d.abs().to(at::kFloat); }
at::Tensor read_of(const T5& e, const at::Tensor& d) {
  return t5_entries(e, d[0].item<std::int64_t>(), d[-1].item<std::int64_t>());
}
at::Tensor read_of(const Relative& e, const at::Tensor& d) { return relative_entries(e, d); }

struct ToeplitzValues {
  const Tensors& parameters;
  const at::Tensor& distance;
  at::Tensor known;  // what the encoding reads of the distances, where that is kept

  template <class E>
  at::Tensor operator()(const E& /*encoding*/) const {
    static_assert(!DistanceBias<E>, "a distance bias needs its values here");
    return {};
  }
  at::Tensor operator()(const Alibi& e) const {
    const at::Tensor apart =
        (known.defined() ? known : seen_distance(e, distance)).to(parameters[0].scalar_type());
    return -per_head(parameters[0], distance) * apart;
  }
  at::Tensor operator()(const Kerple& e) const {
    return kerple_bias(e, parameters, known.defined() ? known : distance.abs());
  }
  at::Tensor operator()(const T5& e) const {
    return select(parameters[0].transpose(0, 1), t5_of(e));
  }
  at::Tensor operator()(const Relative& e) const {
    return select(parameters[0], known.defined() ? known : relative_entries(e, distance));
  }

 private:
  // Many queries and keys have few distances between them.
  [[nodiscard]] at::Tensor t5_of(const T5& e) const {
    if (known.defined() || distance.numel() == 0) return known.defined() ? known : distance;
    const std::int64_t least = distance.min().item<std::int64_t>();
    const std::int64_t most = distance.max().item<std::int64_t>();
    return t5_entries(e, least, most).to(distance.device()).index({distance - least});
  }
  [[nodiscard]] at::Tensor select(const at::Tensor& weights, const at::Tensor& entries) const {
    std::vector<std::int64_t> shape = {weights.size(0)};
    shape.insert(shape.end(), distance.sizes().begin(), distance.sizes().end());
    return weights.index_select(1, entries.reshape({-1})).reshape(shape);
  }
};

// SUM over the distances that read each entry. Matrix products sum in a fixed order, adds to an index do
// not on every device.
at::Tensor sum_entries(const at::Tensor& dtable, const at::Tensor& entries, std::int64_t count) {
  const at::Tensor reads =
      at::arange(count, entries.options()).unsqueeze(0) == entries.unsqueeze(1);
  return at::matmul(dtable, reads.to(dtable.scalar_type()));
}

struct ToeplitzGradient {
  const Tensors& parameters;
  const at::Tensor& distance;
  const at::Tensor& buckets;  // or entries, of T5 and of relative
  const at::Tensor& dtable;   // float64

  template <class E>
  Tensors operator()(const E& /*encoding*/) const {
    static_assert(!DistanceBias<E>, "a distance bias needs its gradient here");
    return {};
  }
  Tensors operator()(const Alibi& e) const {
    const at::Tensor apart = seen_distance(e, distance).to(at::kDouble);
    return {-(dtable * apart).sum(1)};
  }
  Tensors operator()(const T5& e) const {
    return {sum_entries(dtable, buckets, e.num_buckets).transpose(0, 1)};
  }
  Tensors operator()(const Relative& /*e*/) const {
    return {sum_entries(dtable, buckets, parameters[0].size(1))};
  }
  Tensors operator()(const Kerple& e) const {
    const Tensors wide = {parameters[0].to(at::kDouble), parameters[1].to(at::kDouble)};
    const KerpleValues values(e, wide);
    const at::Tensor p = values.p.unsqueeze(1);
    const at::Tensor a = values.a.unsqueeze(1);
    const at::Tensor apart = distance.abs().to(at::kDouble);
    at::Tensor dp;
    at::Tensor da;
    if (e.kernel == Kerple::Kernel::kLog) {
      dp = -(a * apart).log1p();
      da = -p * apart / (a * apart + 1.0);
    } else {
      const at::Tensor power = apart.clamp_min(1).pow(p).masked_fill(apart == 0, 0.0);
      dp = -a * power * apart.clamp_min(1).log();
      da = -power;
    }
    // Where a clamp holds a parameter, it does not move. A NaN is not held.
    const double least = formulas::kKerpleSmallest;
    at::Tensor held = wide[0] <= least;
    if (e.kernel == Kerple::Kernel::kPower) held |= wide[0] >= formulas::kKerpleLargestPower;
    return {(dtable * dp).sum(1).masked_fill(held, 0.0),
            (dtable * da).sum(1).masked_fill(wide[1] <= least, 0.0)};
  }
};

std::int64_t power_of_two(std::int64_t n) {
  std::int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// What a function says of a range of distances, cut from what is kept of a range that grows in
// doublings: launches that a call need not wait for.
template <class Make>
at::Tensor kept_range(const Prepared& prepared, const std::string& name, const BiasTable& range,
                      const at::Device& device, const Make& make) {
  const std::int64_t before = power_of_two(range.before);
  const std::int64_t after = power_of_two(range.span - range.before);
  const at::Tensor all = prepared.device_constants.get(
      name + " " + std::to_string(before) + " " + std::to_string(after), device,
      [&] { return make(at::arange(-before, after + 1, at::kLong)); });
  return all.narrow(0, before - range.before, range.span);
}

at::Tensor distances_of(const Prepared& prepared, const BiasTable& range,
                        const at::Device& device) {
  return kept_range(prepared, "distances", range, device, [](const at::Tensor& d) { return d; });
}

}  // namespace

at::Tensor bias_reading(const Prepared& prepared, std::size_t index, const BiasTable& range,
                        const at::Device& device) {
  const Encoding& encoding = prepared.spec.encodings[index];
  const auto kept = [&](const auto& make) {
    return kept_range(prepared, "reading " + std::to_string(index), range, device, make);
  };
  return std::visit(
      [&]<class E>(const E& e) -> at::Tensor {
        if constexpr (!DistanceBias<E>) {
          return {};
        } else {
          return kept([&](const at::Tensor& d) { return read_of(e, d); });
        }
      },
      encoding);
}

std::vector<Tensors> parameter_tensors(const Prepared& prepared, const at::Tensor& flat) {
  const bool all = flat.numel() == prepared.parameter_count;
  TORCH_CHECK(flat.dim() == 1 && (all || flat.numel() == prepared.trainable_count),
              "[posenc] parameters must have ", prepared.parameter_count, " entries for ",
              to_text(prepared.spec), " (or ", prepared.trainable_count,
              " without the constants) but got ", flat.numel());
  std::vector<Tensors> tensors(prepared.spec.encodings.size());
  std::int64_t at = 0;
  for (const SpecParameter& p : prepared.parameters) {
    if (!all && !p.info.trainable) {
      const std::string name = "start " + std::to_string(p.encoding) + " " +
                               std::to_string(p.index) + " " + c10::toString(flat.scalar_type());
      tensors[p.encoding].push_back(prepared.device_constants.get(name, flat.device(), [&] {
        return at::tensor(prepared.start[p.encoding][p.index], at::kDouble)
            .reshape(p.info.shape)
            .to(flat.scalar_type());
      }));
      continue;
    }
    tensors[p.encoding].push_back(flat.narrow(0, at, p.info.count()).reshape(p.info.shape));
    at += p.info.count();
  }
  return tensors;
}

at::Tensor toeplitz_bias(const Encoding& encoding, const Tensors& parameters,
                         const at::Tensor& distance) {
  return std::visit(ToeplitzValues{parameters, distance, {}}, encoding);
}

at::Tensor fire_bias(const Fire& config, const Tensors& parameters, const at::Tensor& q_positions,
                     const at::Tensor& k_positions) {
  const auto type = parameters[0].scalar_type();
  const at::Tensor c = parameters[0].abs();
  const at::Tensor threshold = parameters[1].abs() * config.init_threshold;
  const at::Tensor i = q_positions.unsqueeze(2);
  const at::Tensor distance = (i - k_positions.unsqueeze(1)).abs().to(type);  // [B, Tq, Tk]
  const at::Tensor place = i.to(type);
  // Not maximum(): where both are equal, its gradient would be halved between them. A NaN rules.
  const at::Tensor reach = at::where(threshold <= place, place, threshold);
  const at::Tensor ratio = (distance * c).log1p() / ((reach * c).log1p() + 1e-6);
  const at::Tensor hidden = at::relu(ratio.unsqueeze(-1) * parameters[2] + parameters[3]);
  return (at::matmul(hidden, parameters[4].transpose(0, 1)) + parameters[5]).permute({0, 3, 1, 2});
}

at::Tensor bias_table(const Prepared& prepared, const std::vector<Tensors>& parameters,
                      const BiasTable& range, const at::Device& device) {
  const at::Tensor distance = distances_of(prepared, range, device);
  at::Tensor sum;
  for (const std::size_t index : prepared.plan.state().biases) {
    const at::Tensor known = bias_reading(prepared, index, range, device);
    const at::Tensor one = std::visit(ToeplitzValues{parameters[index], distance, known},
                                      prepared.spec.encodings[index]);
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

std::vector<Tensors> bias_table_gradient(const Prepared& prepared,
                                         const std::vector<Tensors>& parameters,
                                         const BiasTable& range, const at::Tensor& dtable) {
  const at::Tensor distance = distances_of(prepared, range, dtable.device());
  const at::Tensor wide = dtable.to(at::kDouble);
  std::vector<Tensors> gradients(parameters.size());
  for (const std::size_t index : prepared.plan.state().biases) {
    const at::Tensor buckets = bias_reading(prepared, index, range, dtable.device());
    gradients[index] = std::visit(ToeplitzGradient{parameters[index], distance, buckets, wide},
                                  prepared.spec.encodings[index]);
  }
  return gradients;
}

at::Tensor join_gradients(const Prepared& prepared, const std::vector<Tensors>& gradients,
                          const at::Tensor& flat) {
  const bool all = flat.numel() == prepared.parameter_count;
  Tensors parts;
  for (const SpecParameter& p : prepared.parameters) {
    if (!all && !p.info.trainable) continue;
    const Tensors& of = gradients[p.encoding];
    const at::Tensor one = p.index < of.size() ? of[p.index] : at::Tensor();
    parts.push_back(one.defined() ? one.reshape({-1}).to(flat.options())
                                  : at::zeros({p.info.count()}, flat.options()));
  }
  return parts.empty() ? at::zeros_like(flat) : at::cat(parts);
}

}  // namespace posenc::ops
