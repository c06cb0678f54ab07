#include "torch/composed/biases.h"

#include "kernels/attention_call.h"
#include "torch/composed/numbers.h"

namespace posenc::ops {
namespace {

using Tensors = std::vector<at::Tensor>;
using formulas::Dual;
using formulas::Numbers;

// [H] -> [H, 1, ..] with as many dimensions after it as the distances have.
at::Tensor per_head(const at::Tensor& x, const at::Tensor& distance) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(distance.dim()) + 1, 1);
  shape[0] = x.size(0);
  return x.reshape(shape);
}

// Calls `body` with the formula of a distance bias; of other encodings nothing comes.
template <class Result, class Body>
Result with_formula(const Encoding& encoding, const Body& body) {
  return std::visit(
      [&]<class E>(const E& e) -> Result {
        if constexpr (DistanceBias<E>) {
          return body(e);
        } else {
          return {};
        }
      },
      encoding);
}

// The entries that a range of distances reads, found on the host, where the formula is. Nothing for formulas
// without entries.
template <class E>
at::Tensor entries_between(const E& /*formula*/, std::int64_t /*least*/, std::int64_t /*most*/) {
  return {};
}
template <ReadsEntries E>
at::Tensor entries_between(const E& formula, std::int64_t least, std::int64_t most) {
  at::Tensor entries = at::empty({most - least + 1}, at::kLong);
  auto* at = entries.data_ptr<std::int64_t>();
  for (std::int64_t d = least; d <= most; ++d) *at++ = formula.entry(d);
  return entries;
}

// Those of any distances. Many queries and keys have few distances between them, and the far ones share an entry.
template <class E>
at::Tensor entries_at(const E& /*formula*/, const at::Tensor& /*distance*/) {
  return {};
}
template <ReadsEntries E>
at::Tensor entries_at(const E& formula, const at::Tensor& distance) {
  constexpr std::int64_t kShortTable = 1 << 16;
  if (distance.numel() == 0) return distance;
  const std::int64_t reach = formula.reach();
  std::int64_t least = -reach;
  std::int64_t most = reach;
  if (reach > kShortTable) {
    least = std::clamp(distance.min().item<std::int64_t>(), -reach, reach);
    most = std::clamp(distance.max().item<std::int64_t>(), -reach, reach);
  }
  const at::Tensor entries = entries_between(formula, least, most);
  return entries.to(distance.device()).index({distance.clamp(least, most) - least});
}

// What a formula reads of its parameters at distances: [heads, 1, ..] or [heads, distances]. `entries`: of the
// distances, for formulas that have them.
template <class E>
std::array<Numbers, E::kReads> reads_of(const Tensors& parameters, const at::Tensor& distance,
                                        const at::Tensor& entries) {
  std::array<Numbers, E::kReads> x;
  for (std::size_t n = 0; n < x.size(); ++n) {
    if constexpr (!ReadsEntries<E>) {
      x[n].all = per_head(parameters[n], distance);
    } else {
      const at::Tensor& table = parameters[n];
      const at::Tensor of_head = E::kHeadsLast ? table.transpose(0, 1) : table;
      std::vector<std::int64_t> shape = {of_head.size(0)};
      shape.insert(shape.end(), distance.sizes().begin(), distance.sizes().end());
      x[n].all = of_head.index_select(1, entries.reshape({-1})).reshape(shape);
    }
  }
  return x;
}

at::Tensor values_at(const Encoding& encoding, const Tensors& parameters,
                     const at::Tensor& distance, const at::Tensor& entries) {
  return with_formula<at::Tensor>(encoding, [&]<class E>(const E& formula) {
    const Numbers d{distance.to(parameters[0].scalar_type())};
    return formula.value(reads_of<E>(parameters, distance, entries), d).all;
  });
}

// SUM over the distances that read each entry. Matrix products sum in a fixed order, adds to an index do
// not on every device.
at::Tensor sum_entries(const at::Tensor& dtable, const at::Tensor& entries, std::int64_t count) {
  const at::Tensor reads =
      at::arange(count, entries.options()).unsqueeze(0) == entries.unsqueeze(1);
  return at::matmul(dtable, reads.to(dtable.scalar_type()));
}

// The gradients of what was read at distances [span], [heads, span], as those of the parameters.
template <class E>
at::Tensor gathered(const E& formula, const at::Tensor& dread, const at::Tensor& entries) {
  if constexpr (!ReadsEntries<E>) {
    return dread.sum(1);
  } else {
    const at::Tensor sums = sum_entries(dread, entries, formula.entries());
    return E::kHeadsLast ? sums.transpose(0, 1) : sums;
  }
}

// `dtable`: float64.
Tensors gradients_at(const Encoding& encoding, const Tensors& parameters,
                     const at::Tensor& distance, const at::Tensor& entries,
                     const at::Tensor& dtable) {
  return with_formula<Tensors>(encoding, [&]<class E>(const E& formula) {
    Tensors wide;
    for (const at::Tensor& p : parameters) wide.push_back(p.to(at::kDouble));
    const Numbers d{distance.to(at::kDouble)};
    const auto read = reads_of<E>(wide, distance, entries);
    std::array<Dual<Numbers>, E::kReads> x;
    for (std::size_t n = 0; n < x.size(); ++n) x[n].value = read[n];
    Tensors gradients;
    for (Dual<Numbers>& moving : x) {
      moving.slope.all = at::ones({}, dtable.options());
      const at::Tensor slope = formula.value(x, d).slope.all;
      const at::Tensor dread = slope.defined() ? dtable * slope : at::zeros_like(dtable);
      gradients.push_back(gathered(formula, dread, entries));
      moving.slope.all = at::Tensor();
    }
    return gradients;
  });
}

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
      [&] { return make(-before, after); });
  return all.narrow(0, before - range.before, range.span);
}

at::Tensor distances_of(const Prepared& prepared, const BiasTable& range,
                        const at::Device& device) {
  return kept_range(
      prepared, "distances", range, device,
      [](std::int64_t least, std::int64_t most) { return at::arange(least, most + 1, at::kLong); });
}

}  // namespace

at::Tensor bias_entries(const Prepared& prepared, std::size_t index, const BiasTable& range,
                        const at::Device& device) {
  const std::string name = "entries " + std::to_string(index);
  const auto kept = [&]<class E>(const E& formula) -> at::Tensor {
    if constexpr (!ReadsEntries<E>) return {};
    return kept_range(prepared, name, range, device, [&](std::int64_t least, std::int64_t most) {
      return entries_between(formula, least, most);
    });
  };
  return with_formula<at::Tensor>(prepared.spec.encodings[index], kept);
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
  const auto entries = [&]<class E>(const E& formula) { return entries_at(formula, distance); };
  return values_at(encoding, parameters, distance, with_formula<at::Tensor>(encoding, entries));
}

at::Tensor fire_bias(const Fire& config, const Tensors& parameters, const at::Tensor& q_positions,
                     const at::Tensor& k_positions) {
  const auto type = parameters[0].scalar_type();
  const at::Tensor i = q_positions.unsqueeze(2);
  const Numbers distance{(i - k_positions.unsqueeze(1)).abs().to(type)};  // [B, Tq, Tk]
  const Numbers c{parameters[0]};
  const Numbers scale =
      Fire::row_scale(config.init_threshold, c, Numbers{parameters[1]}, Numbers{i.to(type)});
  const at::Tensor u = (Fire::psi(c, distance) * scale).all;
  const at::Tensor hidden = at::relu(u.unsqueeze(-1) * parameters[2] + parameters[3]);
  return (at::matmul(hidden, parameters[4].transpose(0, 1)) + parameters[5]).permute({0, 3, 1, 2});
}

namespace {

// Coordinates y and x, [B or 1, T] each.
std::pair<at::Tensor, at::Tensor> points_of(const Relative2d& config, const at::Tensor& positions) {
  const at::Tensor n = positions.select(2, 0);
  if (positions.size(2) > 1) return {n, positions.select(2, 1)};
  const at::Tensor y = at::div(n, config.width, "floor");
  return {y, n - y * config.width};
}

// Distances between all queries and keys, as entries of an axis of `size`: [B or 1, Tq, Tk].
at::Tensor axis_entries(const at::Tensor& query, const at::Tensor& key, std::int64_t size) {
  return (query.unsqueeze(2) - key.unsqueeze(1)).clamp(1 - size, size - 1) + (size - 1);
}

// Entries [heads, count] at [B or 1, Tq, Tk], as [B or 1, heads, Tq, Tk].
at::Tensor read_entries(const at::Tensor& table, const at::Tensor& entries) {
  std::vector<std::int64_t> shape = {table.size(0)};
  shape.insert(shape.end(), entries.sizes().begin(), entries.sizes().end());
  return table.index_select(1, entries.reshape({-1})).reshape(shape).transpose(0, 1);
}

}  // namespace

at::Tensor plane_bias(const Relative2d& config, const Tensors& parameters,
                      const at::Tensor& q_positions, const at::Tensor& k_positions) {
  const auto [qy, qx] = points_of(config, q_positions);
  const auto [ky, kx] = points_of(config, k_positions);
  const at::Tensor row = axis_entries(qy, ky, config.height);
  const at::Tensor column = axis_entries(qx, kx, config.width);
  if (config.separable)
    return read_entries(parameters[0], row) + read_entries(parameters[1], column);
  return read_entries(parameters[0].flatten(1), row * config.column_entries() + column);
}

at::Tensor bias_table(const Prepared& prepared, const std::vector<Tensors>& parameters,
                      const BiasTable& range, const at::Device& device) {
  const at::Tensor distance = distances_of(prepared, range, device);
  at::Tensor sum;
  for (const std::size_t index : prepared.plan.terms().biases) {
    const at::Tensor entries = bias_entries(prepared, index, range, device);
    const at::Tensor one =
        values_at(prepared.spec.encodings[index], parameters[index], distance, entries);
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
  for (const std::size_t index : prepared.plan.terms().biases) {
    const at::Tensor entries = bias_entries(prepared, index, range, dtable.device());
    gradients[index] =
        gradients_at(prepared.spec.encodings[index], parameters[index], distance, entries, wide);
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
