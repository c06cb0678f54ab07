#include "kernels/ref/attention_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ref/chain.h"
#include "kernels/ref/checks.h"

namespace posenc::ref {
namespace {

// Those that the mask shows; of a stick, those before the query.
std::vector<bool> visible_keys(const AttentionCall& call, const Head& head, std::int64_t query) {
  std::vector<bool> visible = call.mask.row(head.batch, query);
  for (std::size_t j = 0; call.breaks_sticks && j < visible.size(); ++j) {
    visible[j] = visible[j] && call.mask.keys().place[j] < call.mask.queries().place[query];
  }
  return visible;
}

std::vector<double> raw_scores(const AttentionCall& call, const Head& head, const Row& row) {
  std::vector<double> raw(row.visible.size(), 0.0);
  for (std::size_t j = 0; j < raw.size(); ++j) {
    if (!row.visible[j]) continue;
    const auto key =
        vector_at(std::span(head.rotated_k), static_cast<std::int64_t>(j), call.shape.head_dim);
    raw[j] = call.scale * dot(call.chain ? row.chained[j] : row.rotated_q, key);
  }
  return raw;
}

std::vector<double> biases(const AttentionCall& call, const Head& head, const Row& row,
                           std::int64_t query) {
  std::vector<double> sum(row.visible.size(), 0.0);
  const std::int64_t i = call.positions.query(head.batch, query)[0];
  for (std::size_t e = 0; e < call.spec.encodings.size(); ++e) {
    const auto add = [&]<class E>(const E& encoding) {
      if constexpr (BiasEncoding<E>) {
        for (std::size_t key = 0; key < sum.size(); ++key) {
          if (!row.visible[key]) continue;
          const std::int64_t j = call.positions.key(head.batch, static_cast<std::int64_t>(key))[0];
          sum[key] += bias(encoding, call.parameters[e], head.head, i, j);
        }
      } else if constexpr (PlaneBias<E>) {
        const auto from = encoding.point(call.positions.query(head.batch, query));
        for (std::size_t key = 0; key < sum.size(); ++key) {
          if (!row.visible[key]) continue;
          const auto to =
              encoding.point(call.positions.key(head.batch, static_cast<std::int64_t>(key)));
          sum[key] += bias(encoding, call.parameters[e], head.head, from, to);
        }
      }
    };
    std::visit(add, call.spec.encodings[e]);
  }
  return sum;
}

std::vector<double> gate_logits(const AttentionCall& call, const Head& head, const Row& row,
                                std::span<const double> q, std::size_t encoding) {
  const auto& config = std::get<Cope>(call.spec.encodings[encoding]);
  std::vector<double> logits = row.raw;
  const std::span<const double> vectors = gate_vectors(call, head, encoding);
  for (std::size_t j = 0; j < logits.size(); ++j) {
    if (!row.visible[j]) continue;
    if (has_gate_vectors(config)) {
      const auto key = vector_at(vectors, static_cast<std::int64_t>(j), call.shape.head_dim);
      logits[j] = call.scale * dot(q, key);
    }
    if (config.gates_see_bias) logits[j] += row.bias[j];
  }
  return logits;
}

ContentTerm content_term(const AttentionCall& call, const Head& head, const Row& row,
                         std::span<const double> q, std::size_t encoding) {
  const auto& config = std::get<Cope>(call.spec.encodings[encoding]);
  ContentTerm term;
  term.config = &config;
  term.encoding = encoding;
  term.logit_scale = logit_factor(config, call.shape.head_dim);
  term.table = cope_table(config, call.parameters[encoding][0], q, head.head);
  term.row = cope_positions(config, gate_logits(call, head, row, q, encoding), row.visible);
  term.logits.resize(row.visible.size());
  cope_logits(config, term.row, term.table, term.logits);
  return term;
}

std::optional<std::size_t> own_key(const AttentionCall& call, std::int64_t query) {
  const Places& keys = call.mask.keys();
  const Places& queries = call.mask.queries();
  for (std::size_t j = 0; j < keys.place.size(); ++j) {
    if (keys.sequence[j] == queries.sequence[query] && keys.place[j] == queries.place[query]) {
      return j;
    }
  }
  return std::nullopt;
}

// c_i - c_j, summed over the token terms.
std::vector<double> token_terms(const Head& head, const Row& row) {
  std::vector<double> sum(row.visible.size(), 0.0);
  for (const HeadTokenTerm& term : head.token_terms) {
    // 0 before the first key
    const double at_query = row.own_key ? term.sums.at_query[*row.own_key] : 0.0;
    const double before = row.own_key ? term.before[*row.own_key] : 0.0;
    for (std::size_t j = 0; j < sum.size(); ++j) {
      if (!row.visible[j]) continue;
      const bool later = term.form.both_sides && row.later[j];
      sum[j] += later ? term.before[j] - before : at_query - term.sums.at_key[j];
    }
  }
  return sum;
}

RelativeTerm relative_term(const AttentionCall& call, const Head& head, const Row& row,
                           std::span<const double> q, std::size_t encoding) {
  const auto& config = std::get<RelativeQuery>(call.spec.encodings[encoding]);
  RelativeTerm term{&config, encoding, config.factor(call.scale), {}};
  if (config.of_keys()) return term;
  if (!config.reads_input()) {
    term.u.assign(q.begin(), q.end());
    if (config.vectors) {
      add_scaled(1.0, vector_at(std::span(call.parameters[encoding][2]), head.head, std::ssize(q)),
                 term.u);
    }
  } else if (row.own_key) {
    const auto u = vector_at(head.of_encodings[first_input(call.token_inputs, encoding)],
                             static_cast<std::int64_t>(*row.own_key), config.rank);
    term.u.assign(u.begin(), u.end());
  }
  return term;
}

// The query with the vectors of Transformer-XL that scores are made with.
std::vector<double> query_with_content(const AttentionCall& call, const Head& head,
                                       std::span<const double> q) {
  std::vector<double> sum(q.begin(), q.end());
  for (std::size_t e = 0; e < call.spec.encodings.size(); ++e) {
    const auto* config = std::get_if<RelativeQuery>(&call.spec.encodings[e]);
    if (config == nullptr || !config->vectors) continue;
    add_scaled(1.0, vector_at(std::span(call.parameters[e][1]), head.head, std::ssize(q)), sum);
  }
  return sum;
}

PathTerm path_term(const AttentionCall& call, const Head& head, const Row& row, std::int64_t query,
                   std::size_t encoding) {
  const auto& config = std::get<GrapeAp>(call.spec.encodings[encoding]);
  const std::size_t input = first_input(call.token_inputs, encoding);
  PathTerm term{.encoding = encoding,
                .slope = call.parameters[encoding][0][head.head],
                .factor = config.factor(),
                .p = {},
                .e = head.of_encodings[input + (config.separate ? 1 : 0)],
                .passed = row.visible,
                .steps = {},
                .sums = {}};
  if (row.own_key) {
    term.p =
        vector_at(head.of_encodings[input], static_cast<std::int64_t>(*row.own_key), config.rank);
  }
  for (std::size_t j = 0; j < term.passed.size(); ++j) {
    const bool before = call.mask.keys().place[j] <= call.mask.queries().place[query];
    term.passed[j] = term.passed[j] && before;
  }
  fill_path_sums(term);
  // A number that is not finite shows in every row that sees it, also where no step reads it.
  for (std::size_t j = 0; j < row.visible.size() && !term.p.empty(); ++j) {
    if (!row.visible[j]) continue;
    const auto step = vector_at(term.e, static_cast<std::int64_t>(j), config.rank);
    if (!is_finite(term.p) || !is_finite(step)) {
      term.sums[j] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return term;
}

void add_path(const PathTerm& term, Row& row) {
  for (std::size_t j = 0; j < row.visible.size(); ++j) {
    if (row.visible[j]) row.relative_sum[j] += term.slope * term.sums[j];
  }
}

void add_relative(const AttentionCall& call, const Head& head, const RelativeTerm& term,
                  std::int64_t query, Row& row) {
  const std::vector<double>& table = call.parameters[term.encoding][0];
  for (std::size_t j = 0; j < row.visible.size(); ++j) {
    if (!row.visible[j]) continue;
    const auto u = term.vector(call, head, j);
    std::int64_t at = relative_entry(call, head, term, query, j);
    for (std::size_t c = 0; at >= 0 && c < u.size(); ++c, at += term.config->entries()) {
      row.relative_sum[j] += term.factor * u[c] * table[at];
    }
  }
}

void add_up(const AttentionCall& call, Row& row) {
  row.score.assign(row.visible.size(), 0.0);
  row.slope.assign(row.visible.size(), 1.0);
  row.content_sum = row.tokens;
  for (std::size_t j = 0; j < row.score.size(); ++j) {
    if (!row.visible[j]) continue;
    row.content_sum[j] += row.relative_sum[j];
    for (const ContentTerm& term : row.content) {
      row.content_sum[j] += term.logit_scale * term.logits[j];
    }
    row.score[j] = row.raw[j] + row.bias[j] + row.content_sum[j];
    for (const Encoding& encoding : call.spec.encodings) {
      const auto* cap = std::get_if<Softcap>(&encoding);
      if (cap == nullptr) continue;
      row.score[j] = cap->value(row.score[j]);
      row.slope[j] *= cap->slope(row.score[j]);
    }
  }
}

template <class... Configs>
constexpr bool content_is_known(const std::variant<Configs...>* /*tag*/) {
  return ((Configs::kTraits.site != Site::kContent || std::same_as<Configs, Cope> ||
           std::same_as<Configs, RelativeQuery> || std::same_as<Configs, GrapeAp> ||
           TokenTerm<Configs>)&&...);
}

// Fills weight and lse: 0 and -infinity where no key is visible. A score that is NaN or +infinity, or
// none above -infinity, makes the whole row NaN.
void softmax(Row& row) {
  const std::size_t keys = row.visible.size();
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  double largest = kNone;
  for (std::size_t j = 0; j < keys; ++j) {
    if (row.visible[j]) largest = std::max(largest, row.score[j]);
  }
  row.weight.assign(keys, 0.0);
  row.lse = kNone;
  if (row.blind()) return;
  double sum = 0.0;
  for (std::size_t j = 0; j < keys; ++j) {
    if (row.visible[j]) sum += row.weight[j] = std::exp(row.score[j] - largest);
  }
  for (std::size_t j = 0; j < keys; ++j) {
    if (row.visible[j]) row.weight[j] /= sum;
  }
  row.lse = largest + std::log(sum);
}

// Fills weight, and lse with the logarithm of what is left. A score that is NaN makes the whole row NaN.
void break_stick(Row& row) {
  row.weight.assign(row.visible.size(), 0.0);
  row.lse = row.blind() ? -std::numeric_limits<double>::infinity() : 0.0;
  for (std::size_t j = row.visible.size(); j-- > 0;) {
    if (!row.visible[j]) continue;
    row.weight[j] = std::exp(row.lse - softplus(-row.score[j]));
    row.lse -= softplus(row.score[j]);
  }
  for (std::size_t j = 0; std::isnan(row.lse) && j < row.weight.size(); ++j) {
    if (row.visible[j]) row.weight[j] = row.lse;
  }
}

void add_sinks(const AttentionCall& call, const Head& head, Row& row) {
  for (std::size_t e = 0; e < call.spec.encodings.size() && !row.blind(); ++e) {
    if (!std::holds_alternative<Sink>(call.spec.encodings[e])) continue;
    const SinkRow<double> rest = add_sink(row.lse, call.parameters[e][0][head.head]);
    for (double& weight : row.weight) weight *= rest.share;
    row.lse = rest.lse;
  }
}

}  // namespace

std::span<const double> RelativeTerm::vector(const AttentionCall& call, const Head& head,
                                             std::size_t key) const {
  if (!config->of_keys()) return u;
  return vector_at(head.k, static_cast<std::int64_t>(key), call.shape.head_dim);
}

std::int64_t relative_entry(const AttentionCall& call, const Head& head, const RelativeTerm& term,
                            std::int64_t query, std::size_t key) {
  const std::int64_t i = call.positions.query(head.batch, query)[0];
  const std::int64_t j = call.positions.key(head.batch, static_cast<std::int64_t>(key))[0];
  const std::int64_t entry = term.config->entry(i - j);
  return entry < 0 ? entry : term.config->table_of(head.head, call.shape.head_dim) + entry;
}

std::span<const double> gate_vectors(const AttentionCall& call, const Head& head,
                                     std::size_t encoding) {
  const auto source = std::get<Cope>(call.spec.encodings[encoding]).gate_source;
  if (source == Cope::GateSource::kValue) return head.v;
  if (source != Cope::GateSource::kSeparate) return {};
  return head.of_encodings[first_input(call.token_inputs, encoding)];
}

Row evaluate_row(const AttentionCall& call, const Head& head, std::int64_t query) {
  const auto q = vector_at(head.q, query, call.shape.head_dim);
  Row row;
  row.visible = visible_keys(call, head, query);
  row.relative_sum.assign(row.visible.size(), 0.0);
  row.own_key = own_key(call, query);
  for (const std::int64_t place : call.mask.keys().place) {
    row.later.push_back(place > call.mask.queries().place[query]);
  }
  row.plain_q = query_with_content(call, head, q);
  row.rotated_q = row.plain_q;
  call.transforms.apply(Role::kQuery, query_token(call, head, row, query), row.rotated_q);
  if (call.chain) row.chained = chained_queries(call, head, row);
  row.raw = raw_scores(call, head, row);
  row.bias = biases(call, head, row, query);
  row.tokens = token_terms(head, row);
  for (std::size_t e = 0; e < call.spec.encodings.size(); ++e) {
    static_assert(content_is_known(static_cast<const Encoding*>(nullptr)),
                  "content terms are CoPE, RelativeQuery, GrapeAp and token terms");
    if (std::holds_alternative<Cope>(call.spec.encodings[e])) {
      row.content.push_back(content_term(call, head, row, q, e));
    } else if (std::holds_alternative<RelativeQuery>(call.spec.encodings[e])) {
      row.relative.push_back(relative_term(call, head, row, q, e));
      add_relative(call, head, row.relative.back(), query, row);
    } else if (std::holds_alternative<GrapeAp>(call.spec.encodings[e])) {
      row.paths.push_back(path_term(call, head, row, query, e));
      add_path(row.paths.back(), row);
    }
  }
  add_up(call, row);
  if (call.breaks_sticks) {
    break_stick(row);
  } else {
    softmax(row);
    add_sinks(call, head, row);
  }
  for (std::int64_t j = 0; j < call.shape.keys; ++j) {
    row.dropout.push_back(dropout_factor(call.options.dropout, head.batch, head.head, query, j));
  }
  return row;
}

}  // namespace posenc::ref
