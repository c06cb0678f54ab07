// A case of attention on the host as the arguments of a CUDA kernel: sizes, masks and tables.
#pragma once

#include <cmath>
#include <vector>

#include "cases/attention_data.h"
#include "kernels/cuda/attention.h"
#include "kernels/fire_tables.h"

namespace posenc::cuda::testing {

// Tables of the host as the device reads its own.
inline FireTable host_table(const FireTables& tables, const DistanceRange& range) {
  const cpu::FireProblem first = tables.problem(0);
  return {static_cast<int>(first.segments),
          first.bounds,
          first.slopes,
          first.intercepts,
          first.psi - range.before,
          first.dpsi - range.before,
          range.before,
          range.span(),
          first.row_scale + range.lowest_place,
          range.lowest_place};
}

using cases::AttentionData;

using Floats = std::vector<float>;

template <class E>
inline constexpr bool kIsToeplitz = BiasEncoding<E> && !std::is_same_v<E, Fire>;

// Tables of a case on the host, as a kernel's arguments.
class HostCall {
 public:
  explicit HostCall(AttentionData& data) : d(data) {
    p.batch = static_cast<int>(d.c.batch);
    p.heads = static_cast<int>(d.c.heads);
    p.kv_heads = static_cast<int>(d.c.kv_heads);
    p.queries = static_cast<int>(d.c.queries);
    p.keys = static_cast<int>(d.c.keys);
    p.head_dim = static_cast<int>(d.c.head_dim);
    p.scale = 1.0f / std::sqrt(static_cast<float>(d.c.head_dim));
    p.window_left = d.c.window_left;
    p.window_right = d.c.causal ? 0 : d.c.window_right;
    if (d.c.padding) p.key_mask = d.key_mask.data();
    fill_table();
    for (std::size_t e = 0; e < d.spec.encodings.size(); ++e) {
      if (const auto* x = std::get_if<Cope>(&d.spec.encodings[e])) fill_cope(*x, e);
      if (const auto* x = std::get_if<Fire>(&d.spec.encodings[e])) fill_fire(*x, e);
      if (const auto* x = std::get_if<Softcap>(&d.spec.encodings[e])) {
        p.softcap = static_cast<float>(x->cap);
      }
      if (std::holds_alternative<StickBreaking>(d.spec.encodings[e])) p.breaks_sticks = true;
      if (const auto* x = std::get_if<RelativeQuery>(&d.spec.encodings[e])) fill_relative(*x, e);
      if (const auto form = token_form(d.spec.encodings[e], static_cast<double>(p.scale))) {
        fill_tokens(*form, e);
      }
    }
  }

  AttentionData& d;
  AttentionParams p;
  std::size_t cope = 0, fire = 0, relative = 0;  // encodings
  Floats table, embedding, relative_table;
  std::vector<double> at_query, at_key;
  FireTables fire_tables;
  bool has_gates = false;
  std::optional<TokenForm> token;  // of the term per token,
  std::size_t token_input = 0;     // and its input

  [[nodiscard]] std::size_t heads() const { return static_cast<std::size_t>(p.heads); }
  // Of a batch entry; empty: all are.
  [[nodiscard]] std::span<const std::uint8_t> real_keys(std::size_t batch) const {
    if (!d.c.padding) return {};
    const auto keys = static_cast<std::size_t>(p.keys);
    return std::span(d.key_mask).subspan(batch * keys, keys);
  }

  // Calls f(encoding, index) for every Toeplitz bias.
  template <class F>
  void each_bias(const F& f) const {
    for (std::size_t e = 0; e < d.spec.encodings.size(); ++e) {
      std::visit(
          [&](const auto& x) {
            if constexpr (kIsToeplitz<std::decay_t<decltype(x)>>) f(x, e);
          },
          d.spec.encodings[e]);
    }
  }

 private:
  void fill_table() {
    bool any = false;
    each_bias([&](const auto&, std::size_t) { any = true; });
    if (!any) return;
    const std::int64_t span = d.c.queries + d.c.keys - 1;
    for (std::int64_t i = 0; i < d.c.heads * span; ++i) {
      const std::int64_t n = i % span - (d.c.queries - 1);
      double sum = 0.0;
      each_bias([&](const auto& x, std::size_t e) {
        sum += bias(x, d.parameters[e], i / span, std::max<std::int64_t>(n, 0),
                    std::max<std::int64_t>(-n, 0));
      });
      table.push_back(static_cast<float>(sum));
    }
    p.toeplitz = {table.data(), span, d.c.queries - 1, span};
  }
  void fill_cope(const Cope& x, std::size_t e) {
    cope = e;
    embedding.assign(d.parameters[e][0].begin(), d.parameters[e][0].end());
    p.cope.npos_max = static_cast<int>(x.npos_max);
    const bool interpolates = x.variant == Cope::Variant::kInterpolate;
    (interpolates ? p.cope.pos_emb : p.cope.slopes) = embedding.data();
    p.cope.logit_scale = x.logit_scale == Cope::LogitScale::kSqrtDim ? p.scale : 1.0f;
    p.cope.gates_see_bias = x.gates_see_bias;
    has_gates = x.gate_source != Cope::GateSource::kKey;
  }
  // The vectors u are the test's to multiply.
  void fill_relative(const RelativeQuery& x, std::size_t e) {
    relative = e;
    relative_table.assign(d.parameters[e][0].begin(), d.parameters[e][0].end());
    RelativeTable& to = p.relative;
    to.entries = static_cast<int>(x.entries());
    to.lowest = static_cast<int>(x.lowest());
    to.clips = x.beyond == RelativeQuery::Beyond::kClip;
    to.rank = static_cast<int>(x.channels(p.head_dim));
    to.table = relative_table.data();
    to.head_stride = x.table_of(1, p.head_dim);
    to.factor = static_cast<float>(x.factor(static_cast<double>(p.scale)));
  }
  void fill_tokens(const TokenForm& form, std::size_t e) {
    token = form;
    token_input = first_input(d.token_inputs, e);
    const std::vector<double> x = d.inputs[token_input].values();
    const auto keys = static_cast<std::size_t>(p.keys);
    for (std::size_t row = 0; row * keys < x.size(); ++row) {
      const TokenSums sums =
          token_sums(form, std::span(x).subspan(row * keys, keys), real_keys(row / heads()));
      for (int i = 0; i < p.queries; ++i) {
        const int place = i + p.keys - p.queries;
        at_query.push_back(place < 0 ? 0.0 : sums.at_query[static_cast<std::size_t>(place)]);
      }
      at_key.insert(at_key.end(), sums.at_key.begin(), sums.at_key.end());
    }
    p.tokens = {at_query.data(), at_key.data()};
  }
  void fill_fire(const Fire& x, std::size_t e) {
    fire = e;
    DistanceRange range;
    range.before = d.c.queries + d.c.keys;
    range.places = std::max(d.c.queries, d.c.keys);
    range.lowest_place = std::min<std::int64_t>(d.c.keys - d.c.queries, 0);
    fire_tables = FireTables(x, d.parameters[e], d.c.heads, range);
    p.fire = host_table(fire_tables, range);
  }
};

}  // namespace posenc::cuda::testing
