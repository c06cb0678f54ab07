// Backward of the reference: the forward's steps in reverse, row by row, do_i the gradient at o_i.
//
//   dv_j += a_ij do_i,   dw_ij = dropout_ij <do_i, v_j>,   ds_ij = w_ij (dw_ij - SUM_t w_it dw_it)
//   dr_ij = ds_ij + (gates from r),   dB_ij = ds_ij + (gates that see biases)
//   of a stick: ds_ij = w_ij dw_ij (1 - sigmoid(s_ij)) - sigmoid(s_ij) SUM_{t<j} w_it dw_it
//   dq'_i += scale dr_ij k'_j,   dk'_j += scale dr_ij q'_i,   then both back through T
//   with a chain of steps, q'_i is what key j meets of it (chain.h)
#include "kernels/ref/attention_row.h"
#include "kernels/ref/chain.h"
#include "kernels/ref/checks.h"
#include "kernels/ref/vectors.h"

namespace posenc::ref {
namespace {

// Gradients of one row at what its score is a sum of.
struct RowGradients {
  std::vector<double> score;  // ds
  std::vector<double> raw;    // dr
  std::vector<double> bias;   // dB
};

// Where one head's gradients go.
struct HeadGradients {
  std::span<double> q;  // [Tq, D]
  std::span<double> k;  // [Tk, D]
  std::span<double> v;
  std::vector<std::span<double>> of_encodings;  // [Tk, channels] each
  std::vector<double> rotated_k;                // [Tk, D]
  std::vector<double> rotated_v;
  std::vector<std::vector<double>> running;  // of running sums, where an input has them
  SpecParameters& parameters;
  // [Tk], of the sums c of every token term: as queries and as keys read them, and what of it comes from keys after the
  // query.
  std::vector<double> at_query;
  std::vector<double> at_key;
  std::vector<double> later_query;
  std::vector<double> later_key;
};

HeadGradients head_gradients(const AttentionCall& call, const Head& head, AttentionGradients& all) {
  HeadGradients part{
      vector_at(std::span(all.q), head.query_matrix, call.shape.queries * call.shape.head_dim),
      vector_at(std::span(all.k), head.key_matrix, call.shape.keys * call.shape.head_dim),
      vector_at(std::span(all.v), head.key_matrix, call.shape.keys * call.shape.value_width()),
      {},
      std::vector<double>(call.shape.keys * call.shape.head_dim, 0.0),
      std::vector<double>(call.shape.keys * call.shape.value_width(), 0.0),
      {},
      all.parameters,
      std::vector<double>(call.shape.keys, 0.0),
      std::vector<double>(call.shape.keys, 0.0),
      std::vector<double>(call.shape.keys, 0.0),
      std::vector<double>(call.shape.keys, 0.0)};
  for (std::size_t i = 0; i < call.token_inputs.size(); ++i) {
    part.of_encodings.push_back(part_of_head(call, head, i, std::span(all.of_encodings[i])));
    part.running.emplace_back(head.running[i].size(), 0.0);
  }
  return part;
}

// Where the gradients of a token's rows go; `key`: its index, if it is one.
GradientRows gradient_rows(const AttentionCall& call, HeadGradients& gradient,
                           std::optional<std::size_t> key) {
  GradientRows rows(gradient.of_encodings.size());
  for (std::size_t i = 0; key && i < rows.size(); ++i) {
    const auto all = gradient.running[i].empty() ? gradient.of_encodings[i]
                                                 : std::span<double>(gradient.running[i]);
    rows[i] = vector_at(all, static_cast<std::int64_t>(*key), call.token_inputs[i].info.channels);
  }
  return rows;
}

// A step is part of the sums of its token and all later ones.
void running_backward(const AttentionCall& call, const Head& head, std::size_t input,
                      HeadGradients& gradient) {
  std::vector<double>& sums = gradient.running[input];
  const auto channels = static_cast<std::size_t>(call.token_inputs[input].info.channels);
  if (sums.empty()) return;
  for (const Sequence& s : key_sequences(call)) {
    const auto real = real_keys(call, head.batch, s);
    for (std::size_t n = s.count * channels; n-- > 0;) {
      const std::size_t at = s.first * channels + n;
      if (n + channels < s.count * channels) sums[at] += sums[at + channels];
      if (real.empty() || real[n / channels] != 0) gradient.of_encodings[input][at] += sums[at];
    }
  }
}

// A sink's weight has no value behind it: of the gradient only the mean is left.
void sinks_backward(const AttentionCall& call, const Head& head, const Row& row, double mean,
                    SpecParameters& gradient) {
  for (std::size_t e = 0; e < call.spec.encodings.size(); ++e) {
    if (!std::holds_alternative<Sink>(call.spec.encodings[e])) continue;
    const double logit = call.parameters[e][0][head.head];
    gradient[e][0][head.head] -= std::exp(logit - row.lse) * mean;
  }
}

// From the gradient at the weights to that at the scores, in place: a score adds to its own weight, and takes from
// those of all keys before it.
void stick_backward(const Row& row, std::vector<double>& gradient) {
  double before = 0.0;  // SUM of weight times gradient
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    if (!row.visible[j]) continue;
    const double own = row.weight[j] * gradient[j];
    const double share = std::exp(-softplus(-row.score[j]));
    gradient[j] = own * (1.0 - share) - before * share;
    before += own;
  }
  for (std::size_t j = 0; std::isnan(before) && j < gradient.size(); ++j) {
    if (row.visible[j]) gradient[j] = before;
  }
}

std::vector<double> weights_backward(const AttentionCall& call, const Head& head, const Row& row,
                                     std::span<const double> dout, HeadGradients& gradient) {
  std::vector<double> dscore(row.visible.size(), 0.0);
  double mean = 0.0;
  for (std::size_t j = 0; j < dscore.size(); ++j) {
    if (!row.visible[j]) continue;
    const auto key = static_cast<std::int64_t>(j);
    add_scaled(row.weight[j] * row.dropout[j], dout,
               vector_at(std::span(gradient.rotated_v), key, std::ssize(dout)));
    dscore[j] = row.dropout[j] * dot(dout, vector_at(head.values(), key, std::ssize(dout)));
    mean += row.weight[j] * dscore[j];
  }
  if (call.breaks_sticks) {
    stick_backward(row, dscore);
  } else {
    for (std::size_t j = 0; j < dscore.size(); ++j) {
      if (row.visible[j]) dscore[j] = row.weight[j] * (dscore[j] - mean);
    }
    sinks_backward(call, head, row, mean, gradient.parameters);
  }
  for (std::size_t j = 0; j < dscore.size(); ++j) dscore[j] *= row.slope[j];
  return dscore;
}

// z_i = q_i . pos_emb, or the head's slope.
void table_backward(const ContentTerm& term, const std::vector<double>& values,
                    std::span<const double> q, std::span<const double> dtable, std::int64_t head,
                    std::span<double> dq, std::vector<double>& dvalues) {
  if (term.config->variant == Cope::Variant::kAlibi) {
    dvalues[head] += dtable[0];
    return;
  }
  for (std::size_t d = 0; d < q.size(); ++d) {
    const auto channel = static_cast<std::int64_t>(d);
    const auto entries = vector_at(std::span(values), channel, term.config->npos_max);
    for (std::size_t p = 0; p < dtable.size(); ++p) {
      if (dtable[p] != 0.0)
        dq[d] += entries[p] * dtable[p];  // an entry that is not read may be NaN
    }
    add_scaled(q[d], dtable, vector_at(std::span(dvalues), channel, term.config->npos_max));
  }
}

// The gate logit is r_ij, or scale <q_i, x_j> with x the gate keys or the values.
void gates_backward(const AttentionCall& call, const Head& head, const Row& row,
                    const ContentTerm& term, std::int64_t query, std::span<const double> dgate,
                    RowGradients& drow, HeadGradients& gradient) {
  const std::span<const double> vectors = gate_vectors(call, head, term.encoding);
  const bool separate = term.config->gate_source == Cope::GateSource::kSeparate;
  const std::span<double> dvectors =
      separate ? gradient.of_encodings[first_input(call.token_inputs, term.encoding)] : gradient.v;
  const std::int64_t D = call.shape.head_dim;
  for (std::size_t j = 0; j < dgate.size(); ++j) {
    if (!row.visible[j]) continue;
    if (term.config->gates_see_bias) drow.bias[j] += dgate[j];
    if (!has_gate_vectors(*term.config)) {  // open gates have no gradient: zeros
      drow.raw[j] += dgate[j];
      continue;
    }
    const auto key = static_cast<std::int64_t>(j);
    const double factor = call.scale * dgate[j];
    add_scaled(factor, vector_at(vectors, key, D), vector_at(gradient.q, query, D));
    add_scaled(factor, vector_at(head.q, query, D), vector_at(dvectors, key, D));
  }
}

void content_backward(const AttentionCall& call, const Head& head, const Row& row,
                      const ContentTerm& term, std::int64_t query, RowGradients& drow,
                      HeadGradients& gradient) {
  std::vector<double> dlogits = drow.score;
  for (double& x : dlogits) x *= term.logit_scale;
  std::vector<double> dtable(term.table.size(), 0.0);
  std::vector<double> dgate(dlogits.size(), 0.0);
  cope_backward(*term.config, term.row, term.table, dlogits, dtable, dgate);
  const std::int64_t D = call.shape.head_dim;
  table_backward(term, call.parameters[term.encoding][0], vector_at(head.q, query, D), dtable,
                 head.head, vector_at(gradient.q, query, D), gradient.parameters[term.encoding][0]);
  gates_backward(call, head, row, term, query, dgate, drow, gradient);
}

void relative_backward(const AttentionCall& call, const Head& head, const Row& row,
                       const RelativeTerm& term, std::int64_t query, std::span<const double> dscore,
                       HeadGradients& gradient) {
  const std::vector<double>& table = call.parameters[term.encoding][0];
  std::vector<double>& dtable = gradient.parameters[term.encoding][0];
  const std::int64_t D = call.shape.head_dim;
  std::vector<double> sum(term.u.size(), 0.0);
  for (std::size_t j = 0; j < dscore.size(); ++j) {
    if (!row.visible[j]) continue;
    const auto u = term.vector(call, head, j);
    const auto du = term.config->of_keys() ? vector_at(gradient.k, static_cast<std::int64_t>(j), D)
                                           : std::span<double>(sum);
    std::int64_t at = relative_entry(call, head, term, query, j);
    for (std::size_t c = 0; at >= 0 && c < u.size(); ++c, at += term.config->entries()) {
      du[c] += term.factor * dscore[j] * table[at];
      dtable[at] += term.factor * dscore[j] * u[c];
    }
  }
  if (sum.empty()) return;
  if (term.config->reads_input()) {
    add_scaled(1.0, sum,
               vector_at(gradient.of_encodings[first_input(call.token_inputs, term.encoding)],
                         static_cast<std::int64_t>(*row.own_key), term.config->rank));
    return;
  }
  add_scaled(1.0, sum, vector_at(gradient.q, query, D));
  if (!term.config->vectors) return;
  add_scaled(1.0, sum, vector_at(std::span(gradient.parameters[term.encoding][2]), head.head, D));
}

void path_backward(const AttentionCall& call, const Head& head, const Row& row,
                   const PathTerm& term, std::span<const double> dscore, HeadGradients& gradient) {
  if (term.p.empty()) return;
  const std::size_t input = first_input(call.token_inputs, term.encoding);
  const bool separate = std::get<GrapeAp>(call.spec.encodings[term.encoding]).separate;
  path_sums_backward(term, dscore,
                     {.slope = gradient.parameters[term.encoding][0][head.head],
                      .p = vector_at(gradient.of_encodings[input],
                                     static_cast<std::int64_t>(*row.own_key), std::ssize(term.p)),
                      .e = gradient.of_encodings[input + (separate ? 1 : 0)]});
}

void bias_backward(const AttentionCall& call, const Head& head, const Row& row, std::int64_t query,
                   const RowGradients& drow, SpecParameters& gradient) {
  const std::int64_t i = call.positions.query(head.batch, query)[0];
  for (std::size_t e = 0; e < call.spec.encodings.size(); ++e) {
    const auto add = [&]<class E>(const E& encoding) {
      if constexpr (BiasEncoding<E>) {
        for (std::size_t key = 0; key < drow.bias.size(); ++key) {
          if (!row.visible[key]) continue;
          const std::int64_t j = call.positions.key(head.batch, static_cast<std::int64_t>(key))[0];
          add_bias_gradient(encoding, call.parameters[e], head.head, i, j, drow.bias[key],
                            gradient[e]);
        }
      } else if constexpr (PlaneBias<E>) {
        const auto from = encoding.point(call.positions.query(head.batch, query));
        for (std::size_t key = 0; key < drow.bias.size(); ++key) {
          if (!row.visible[key]) continue;
          const auto to =
              encoding.point(call.positions.key(head.batch, static_cast<std::int64_t>(key)));
          add_bias_gradient(encoding, head.head, from, to, drow.bias[key], gradient[e]);
        }
      }
    };
    std::visit(add, call.spec.encodings[e]);
  }
}

void raw_backward(const AttentionCall& call, const Head& head, const Row& row, std::int64_t query,
                  std::span<const double> draw, HeadGradients& gradient) {
  const std::int64_t D = call.shape.head_dim;
  std::vector<double> dq(D, 0.0);
  std::vector<std::vector<double>> dchained(call.chain ? draw.size() : 0, dq);
  for (std::size_t j = 0; j < draw.size(); ++j) {
    if (!row.visible[j]) continue;
    const auto key = static_cast<std::int64_t>(j);
    const double factor = call.scale * draw[j];
    add_scaled(factor, vector_at(std::span(head.rotated_k), key, D), call.chain ? dchained[j] : dq);
    add_scaled(factor, call.chain ? row.chained[j] : row.rotated_q,
               vector_at(std::span(gradient.rotated_k), key, D));
  }
  if (call.chain) dq = chain_backward(call, head, row, dchained, gradient.of_encodings);
  call.transforms.backward(Role::kQuery, query_token(call, head, row, query), row.plain_q, dq,
                           gradient.parameters, gradient_rows(call, gradient, row.own_key));
  add_scaled(1.0, dq, vector_at(gradient.q, query, D));
  for (std::size_t e = 0; e < call.spec.encodings.size(); ++e) {
    const auto* relative = std::get_if<RelativeQuery>(&call.spec.encodings[e]);
    if (relative == nullptr || !relative->vectors) continue;
    add_scaled(1.0, dq, vector_at(std::span(gradient.parameters[e][1]), head.head, D));
  }
}

// From the gradient at the output to that at the sum over the values, in place.
void output_backward(const AttentionCall& call, const Head& head, const Row& row,
                     std::int64_t query, std::span<double> gradient_out, HeadGradients& gradient) {
  if (!call.transforms.rotates_values()) return;
  std::vector<double> sum(call.shape.head_dim, 0.0);
  for (std::size_t j = 0; j < row.visible.size(); ++j) {
    if (!row.visible[j]) continue;
    add_scaled(row.weight[j] * row.dropout[j],
               vector_at(head.values(), static_cast<std::int64_t>(j), call.shape.head_dim), sum);
  }
  call.transforms.value_backward(query_token(call, head, row, query), true, sum, gradient_out,
                                 gradient.parameters, gradient_rows(call, gradient, row.own_key));
}

void row_backward(const AttentionCall& call, const Head& head, std::int64_t query,
                  std::span<const double> dout, HeadGradients& gradient) {
  const Row row = evaluate_row(call, head, query);
  if (row.blind()) return;  // its query may be NaN
  RowGradients drow;
  std::vector<double> dsum(dout.begin(), dout.end());
  output_backward(call, head, row, query, dsum, gradient);
  drow.score = weights_backward(call, head, row, dsum, gradient);
  drow.raw = drow.score;
  drow.bias = drow.score;
  for (const ContentTerm& term : row.content) {
    content_backward(call, head, row, term, query, drow, gradient);
  }
  for (const RelativeTerm& term : row.relative) {
    relative_backward(call, head, row, term, query, drow.score, gradient);
  }
  for (const PathTerm& term : row.paths) {
    path_backward(call, head, row, term, drow.score, gradient);
  }
  for (std::size_t j = 0; j < drow.score.size(); ++j) {
    gradient.at_key[j] -= drow.score[j];
    if (row.own_key) gradient.at_query[*row.own_key] += drow.score[j];
    if (!row.later[j]) continue;
    gradient.later_key[j] -= drow.score[j];
    if (row.own_key) gradient.later_query[*row.own_key] += drow.score[j];
  }
  bias_backward(call, head, row, query, drow, gradient.parameters);
  raw_backward(call, head, row, query, drow.raw, gradient);
}

// After all rows: from the rotated keys and values to the plain ones, and from running sums to their steps.
void keys_backward(const AttentionCall& call, const Head& head, HeadGradients& gradient) {
  const std::int64_t D = call.shape.head_dim;
  const std::int64_t Dv = call.shape.value_width();
  for (std::int64_t j = 0; j < call.shape.keys; ++j) {
    const auto rows = gradient_rows(call, gradient, static_cast<std::size_t>(j));
    const auto dv = vector_at(std::span(gradient.rotated_v), j, Dv);
    if (call.transforms.rotates_values() && !is_zero(std::span<const double>(dv))) {
      call.transforms.value_backward(key_token(call, head, j), false, vector_at(head.v, j, Dv), dv,
                                     gradient.parameters, rows);
    }
    add_scaled(1.0, dv, vector_at(gradient.v, j, Dv));
    const auto dk = vector_at(std::span(gradient.rotated_k), j, D);
    if (is_zero(std::span<const double>(dk))) continue;  // a hidden key may be NaN
    call.transforms.backward(Role::kKey, key_token(call, head, j), vector_at(head.k, j, D), dk,
                             gradient.parameters, rows);
    add_scaled(1.0, dk, vector_at(gradient.k, j, D));
  }
  for (std::size_t i = 0; i < gradient.running.size(); ++i) {
    running_backward(call, head, i, gradient);
  }
}

// After all rows: from the sums of token terms to their inputs.
void tokens_backward(const AttentionCall& call, const Head& head, HeadGradients& gradient) {
  for (const HeadTokenTerm& term : head.token_terms) {
    std::vector<double> dsums = gradient.at_key;
    if (term.form.running) add_scaled(1.0, gradient.at_query, dsums);
    for (const Sequence& s : key_sequences(call)) {
      for (std::size_t n = 0; term.form.both_sides && n < s.count; ++n) {
        // c_{j-1} - c_{i-1} in place of c_i - c_j.
        const double later = gradient.later_key[s.first + n] + gradient.later_query[s.first + n];
        dsums[s.first + n] -= later;
        if (n > 0) dsums[s.first + n - 1] -= later;
      }
      token_sums_backward(term.form, std::span<const double>(dsums).subspan(s.first, s.count),
                          real_keys(call, head.batch, s),
                          gradient.of_encodings[term.input].subspan(s.first, s.count));
    }
  }
}

std::vector<std::vector<double>> zeros_like(const std::vector<std::span<const double>>& tensors) {
  std::vector<std::vector<double>> zeros;
  for (const auto& tensor : tensors) zeros.emplace_back(tensor.size(), 0.0);
  return zeros;
}

}  // namespace

AttentionGradients attention_backward(const Spec& spec, const SpecParameters& parameters,
                                      const AttentionShape& shape, const AttentionInputs& inputs,
                                      std::span<const double> grad_out,
                                      const AttentionOptions& options) {
  const AttentionCall call(spec, parameters, shape, inputs, options);
  require_size("attention", "grad_out", grad_out.size(), shape.out_size(), "[B, H, Tq, Dv]");
  AttentionGradients all{std::vector<double>(inputs.q.size(), 0.0),
                         std::vector<double>(inputs.k.size(), 0.0),
                         std::vector<double>(inputs.v.size(), 0.0), zeros_like(inputs.of_encodings),
                         zeros_like(parameters)};
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const Head head(call, b, h);
      HeadGradients gradient = head_gradients(call, head, all);
      for (std::int64_t i = 0; i < shape.queries; ++i) {
        const std::int64_t index = head.query_matrix * shape.queries + i;
        row_backward(call, head, i, vector_at(grad_out, index, shape.value_width()), gradient);
      }
      keys_backward(call, head, gradient);
      tokens_backward(call, head, gradient);
    }
  }
  return all;
}

}  // namespace posenc::ref
