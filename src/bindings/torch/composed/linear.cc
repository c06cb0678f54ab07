#include "torch/composed/linear.h"

#include <limits>

namespace posenc::ops {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kShortest = 1e-12;  // a shorter vector has no direction, as in the reference

// One run of tokens: a whole sequence, or one of the packed ones.
struct Run {
  std::int64_t first_query;
  std::int64_t queries;
  std::int64_t first_key;
  std::int64_t keys;
};

std::vector<Run> runs_of(const LinearRows& rows) {
  const Tokens& t = *rows.tokens;
  if (!t.packed()) return {{0, rows.q.size(2), 0, rows.k.size(2)}};
  const auto& q = t.cu_queries().empty() ? t.cu_keys() : t.cu_queries();
  const auto& k = t.cu_keys().empty() ? t.cu_queries() : t.cu_keys();
  std::vector<Run> runs;
  for (std::size_t s = 0; s + 1 < q.size(); ++s) {
    runs.push_back({q[s], q[s + 1] - q[s], k[s], k[s + 1] - k[s]});
  }
  return runs;
}

class Walker {
 public:
  Walker(const LinearRows& rows, const LinearDevice& device) : rows_(rows), device_(device) {}

  // a by queries, b and c by keys; out by queries.
  [[nodiscard]] at::Tensor by_queries(const at::Tensor& a, const at::Tensor& b,
                                      const at::Tensor& c) const {
    return walk(a, b, c, true);
  }
  // a by keys, b and c by queries; out by keys.
  [[nodiscard]] at::Tensor by_keys(const at::Tensor& a, const at::Tensor& b,
                                   const at::Tensor& c) const {
    return walk(a, b, c, false);
  }

 private:
  // Queries are aligned with the last keys: the shorter side gets rows of zeros in front, so that the
  // same row is the same place.
  static at::Tensor padded(const at::Tensor& x, std::int64_t first, std::int64_t count,
                           std::int64_t length) {
    const at::Tensor run = x.narrow(2, first, count);
    if (count == length) return run.contiguous();
    return at::constant_pad_nd(run, {0, 0, length - count, 0}).contiguous();
  }

  [[nodiscard]] at::Tensor walk(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                bool queries) const {
    const Sees sees = !rows_.causal ? Sees::kAll : queries ? Sees::kEarlier : Sees::kLater;
    std::vector<at::Tensor> parts;
    for (const Run& run : runs_of(rows_)) {
      const std::int64_t length = std::max(run.queries, run.keys);
      const std::int64_t mine = queries ? run.queries : run.keys;
      const std::int64_t first = queries ? run.first_query : run.first_key;
      const std::int64_t other = queries ? run.keys : run.queries;
      const std::int64_t other_first = queries ? run.first_key : run.first_query;
      const at::Tensor out =
          device_.walk(padded(a, first, mine, length), padded(b, other_first, other, length),
                       padded(c, other_first, other, length), sees);
      parts.push_back(out.narrow(2, length - mine, mine));
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts, 2);
  }

  const LinearRows& rows_;
  const LinearDevice& device_;
};

// Queries or keys as the rows that are multiplied.
struct Features {
  at::Tensor x;        // as given, in float32 or float64, one key head per query head
  at::Tensor plain;    // phi(x); for the cosine x
  at::Tensor rotated;  // T phi(x), or u(T x) and a 1
  at::Tensor sums;     // rows of the denominator
  at::Tensor length;   // |T x| for the cosine, [B, H, T, 1]
};

class Maker {
 public:
  Maker(const LinearRows& rows, const LinearDevice& device) : rows_(rows), device_(device) {
    type_ = rows.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    sharing_ = rows.q.size(1) / std::max<std::int64_t>(rows.k.size(1), 1);
    if (rows.tokens->key_mask().defined()) {
      kept_ = rows.tokens->key_mask().to(type_).reshape({rows.k.size(0), 1, rows.k.size(2), 1});
    }
  }

  [[nodiscard]] bool cosine() const {
    return rows_.options.form == LinearAttentionOptions::Form::kCosine;
  }
  [[nodiscard]] at::ScalarType type() const { return type_; }
  // Values of padding are nothing, whatever its memory holds.
  [[nodiscard]] at::Tensor values() const { return kept(heads(rows_.v)); }
  [[nodiscard]] at::Tensor kept(const at::Tensor& x) const {
    return kept_.defined() ? at::where(kept_ > 0, x, at::zeros({}, x.options())) : x;
  }
  // Sums over the query heads that share a key head.
  [[nodiscard]] at::Tensor shared(const at::Tensor& x) const {
    if (sharing_ == 1) return x;
    return x.reshape({x.size(0), -1, sharing_, x.size(2), x.size(3)}).sum(2);
  }

  [[nodiscard]] Features features(Role role) const {
    Features f;
    const bool keys = role == Role::kKey;
    f.x = keys ? kept(heads(rows_.k)) : rows_.q.to(type_);
    if (!cosine()) {
      f.plain = keys ? kept(phi(f.x)) : phi(f.x);
      f.rotated = device_.turn(role, f.plain, false);
      f.sums = f.plain;
      return f;
    }
    f.plain = f.x;
    const at::Tensor turned = device_.turn(role, f.x, false);
    const at::Tensor length = turned.square().sum(-1, true).sqrt();
    f.length = length;
    const at::Tensor one = at::ones(length.sizes(), length.options());
    const at::Tensor u = turned * inverse(length);
    f.rotated = at::cat({u, one}, -1);
    if (keys) f.rotated = kept(f.rotated);
    f.sums = f.rotated;
    return f;
  }

  // From gradients at the rotated rows and at the denominator's to that of x.
  [[nodiscard]] at::Tensor backward(Role role, const Features& f, const at::Tensor& drotated,
                                    const at::Tensor& dsums) const {
    if (!cosine()) {
      device_.add_frequencies(role, f.plain, drotated);
      return (device_.turn(role, drotated, true) + dsums) * slope(f.x);
    }
    const std::int64_t dim = f.x.size(3);
    const at::Tensor u = f.rotated.narrow(3, 0, dim);
    const at::Tensor d = (drotated + dsums).narrow(3, 0, dim);
    const at::Tensor dturned = (d - u * (u * d).sum(-1, true)) * inverse(f.length);
    device_.add_frequencies(role, f.x, dturned);
    return device_.turn(role, dturned, true);
  }

 private:
  [[nodiscard]] at::Tensor heads(const at::Tensor& x) const {
    const at::Tensor wide = x.to(type_);
    return sharing_ == 1 ? wide : wide.repeat_interleave(sharing_, 1);
  }
  [[nodiscard]] static at::Tensor inverse(const at::Tensor& length) {
    const at::Tensor known = length.masked_fill(length.isinf(), kNaN);  // not a direction of 0
    return at::where(known < kShortest, at::zeros({}, length.options()), known.reciprocal());
  }
  [[nodiscard]] bool relu() const {
    return rows_.options.feature_map == LinearAttentionOptions::FeatureMap::kRelu;
  }
  [[nodiscard]] at::Tensor phi(const at::Tensor& x) const {
    return relu() ? at::relu(x) + rows_.options.epsilon : at::elu(x) + 1.0;
  }
  [[nodiscard]] at::Tensor slope(const at::Tensor& x) const {
    // A NaN comes with the gradient, unless its token is not seen.
    return relu() ? (x > 0).to(type_) : x.clamp_max(0.0).exp().nan_to_num();
  }

  const LinearRows& rows_;
  const LinearDevice& device_;
  at::ScalarType type_ = at::kFloat;
  std::int64_t sharing_ = 1;
  at::Tensor kept_;
};

at::Tensor ones_like_rows(const at::Tensor& x) {
  return at::ones({x.size(0), x.size(1), x.size(2), 1}, x.options());
}

}  // namespace

LinearResult linear_forward(const LinearRows& rows, const LinearDevice& device) {
  const Maker maker(rows, device);
  const Walker walker(rows, device);
  const Features q = maker.features(Role::kQuery);
  const Features k = maker.features(Role::kKey);
  const at::Tensor numerator = walker.by_queries(q.rotated, k.rotated, maker.values());
  const at::Tensor sums = walker.by_queries(q.sums, k.sums, ones_like_rows(k.sums));
  const at::Tensor out = at::where(sums == 0, at::zeros({}, sums.options()), numerator / sums);
  return {out.to(rows.q.scalar_type()), sums.squeeze(-1).contiguous()};
}

LinearGradients linear_backward(const LinearRows& rows, const LinearResult& forward,
                                const at::Tensor& grad_out, const LinearDevice& device) {
  const Maker maker(rows, device);
  const Walker walker(rows, device);
  const Features q = maker.features(Role::kQuery);
  const Features k = maker.features(Role::kKey);
  const at::Tensor v = maker.values();
  const at::Tensor sums = forward.sums.to(maker.type()).unsqueeze(-1);
  const at::Tensor inverse = at::where(sums == 0, at::zeros({}, sums.options()), sums.reciprocal());
  const at::Tensor g = grad_out.to(maker.type()) * inverse;
  const at::Tensor e = -(g * forward.out.to(maker.type())).sum(-1, true);
  const at::Tensor one = ones_like_rows(k.sums);
  const at::Tensor dq = maker.backward(Role::kQuery, q, walker.by_queries(g, v, k.rotated),
                                       walker.by_queries(e, one, k.sums));
  const at::Tensor dk = maker.backward(Role::kKey, k, walker.by_keys(v, g, q.rotated),
                                       walker.by_keys(one, e, q.sums));
  const at::Tensor dv = walker.by_keys(k.rotated, q.rotated, g);
  const auto type = rows.q.scalar_type();
  return {dq.to(type), maker.shared(maker.kept(dk)).to(type),
          maker.shared(maker.kept(dv)).to(type)};
}

at::Tensor walk_by_products(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            Sees sees) {
  const auto seen = [&](const at::Tensor& x) {
    return sees == Sees::kEarlier ? x.tril() : sees == Sees::kLater ? x.triu() : x;
  };
  const at::Tensor scores = seen(at::matmul(a, b.transpose(-1, -2)));
  // Rows of c that are not seen are multiplied by 0, which a NaN survives: it is marked instead.
  const at::Tensor bad = c.isfinite().logical_not();
  const at::Tensor ones = at::ones({c.size(2), c.size(2)}, c.options());
  const at::Tensor marks = at::matmul(seen(ones), bad.to(c.scalar_type())) > 0;
  return at::matmul(scores, c.masked_fill(bad, 0.0)).masked_fill(marks, kNaN);
}

}  // namespace posenc::ops
