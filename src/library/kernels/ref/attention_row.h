// One query's row of scores, shared by the forward and backward of the reference.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/ref/mask.h"
#include "kernels/ref/path_term.h"
#include "kernels/ref/positions.h"
#include "kernels/ref/transforms.h"
#include "kernels/ref/vectors.h"
#include "posenc/kernels/ref/attention.h"

namespace posenc::ref {

// A call, checked and made ready. Borrows its arguments.
struct AttentionCall {
  // Throws where anything does not fit.
  AttentionCall(const Spec& spec_in, const SpecParameters& parameters_in,
                const AttentionShape& shape_in, const AttentionInputs& inputs_in,
                const AttentionOptions& options_in);

  const Spec& spec;
  const SpecParameters& parameters;
  AttentionShape shape;
  AttentionInputs inputs;
  const AttentionOptions& options;
  Mask mask;
  Positions positions;
  Transforms transforms;
  double scale;
  std::vector<SpecInput> token_inputs;  // what inputs.of_encodings holds
  bool breaks_sticks;                   // in place of the softmax
  std::optional<std::size_t> chain;     // of steps, in place of the product of query and key
};

// A TokenTerm of the spec in one head.
struct HeadTokenTerm {
  std::size_t input;  // index into AttentionCall::token_inputs
  TokenForm form;
  TokenSums sums;              // of every key, each sequence for itself
  std::vector<double> before;  // of the keys before each
};

// Tokens first .. first + count - 1 of the keys, which are one sequence.
struct Sequence {
  std::size_t first;
  std::size_t count;
};
std::vector<Sequence> key_sequences(const AttentionCall& call);
// Whether an input holds the steps of a rotation, of which running sums are read.
bool is_running(const AttentionCall& call, std::size_t input);
// Entries of the key mask, or nothing where there is none.
std::span<const std::uint8_t> real_keys(const AttentionCall& call, std::int64_t batch,
                                        const Sequence& sequence);

struct Row;

// One head of one batch entry.
struct Head {
  Head(const AttentionCall& call, std::int64_t batch_in, std::int64_t head_in);

  std::int64_t batch;
  std::int64_t head;
  std::int64_t query_matrix;  // index b H + h of its [Tq, D] in q
  std::int64_t key_matrix;    // index b Hkv + hkv of its [Tk, D] in k and v
  std::span<const double> q;  // [Tq, D]
  std::span<const double> k;  // [Tk, D]
  std::span<const double> v;
  std::vector<std::span<const double>> of_encodings;  // [Tk, channels] each
  std::vector<double> rotated_k;                      // [Tk, D]
  std::vector<double> rotated_v;             // likewise; empty where values are not rotated
  std::vector<std::vector<double>> running;  // sums of inputs that hold steps, else empty
  std::vector<HeadTokenTerm> token_terms;

  // Values as the sum over keys has them.
  [[nodiscard]] std::span<const double> values() const {
    return rotated_v.empty() ? v : std::span<const double>(rotated_v);
  }
};

// A key, and a query with the rows of its own token.
HeadToken key_token(const AttentionCall& call, const Head& head, std::int64_t key);
HeadToken query_token(const AttentionCall& call, const Head& head, const Row& row,
                      std::int64_t query);

// The part [Tk, channels] of a head in the input-th tensor of inputs.of_encodings, or in its gradient.
template <class Number>
std::span<Number> part_of_head(const AttentionCall& call, const Head& head, std::size_t input,
                               std::span<Number> tensor) {
  const InputInfo& info = call.token_inputs[input].info;
  const bool by_query = info.heads == InputInfo::Heads::kQuery;
  return vector_at(tensor, by_query ? head.query_matrix : head.key_matrix,
                   call.shape.keys * info.channels);
}

// What one CoPE makes of a row.
struct ContentTerm {
  const Cope* config;
  std::size_t encoding;       // index into the spec
  double logit_scale;         // 1, or 1/sqrt(D)
  std::vector<double> table;  // z_i[0 .. npos_max-1], or {m_h}
  CopeRow row;
  std::vector<double> logits;  // c_ij before logit_scale
};

// A RelativeQuery in a row.
struct RelativeTerm {
  const RelativeQuery* config;
  std::size_t encoding;   // index into the spec
  double factor;          // of the product
  std::vector<double> u;  // empty where the input has no row for the query, or keys have theirs

  // What the entries are multiplied with at a key.
  [[nodiscard]] std::span<const double> vector(const AttentionCall& call, const Head& head,
                                               std::size_t key) const;
};

// All vectors have Tk entries, zero where the key is not seen.
struct Row {
  std::vector<bool> visible;
  std::vector<double> plain_q;    // [D]: the query, with the vectors that are added to it
  std::vector<double> rotated_q;  // [D]
  std::vector<std::vector<double>> chained;  // the query as every key meets it (chain.h)
  std::vector<double> raw;                   // r_ij
  std::vector<double> bias;                  // SUM_c B_c
  std::vector<double> tokens;                // SUM of the token terms
  std::vector<RelativeTerm> relative;
  std::vector<PathTerm> paths;
  std::vector<double> relative_sum;  // of both
  std::vector<ContentTerm> content;
  std::vector<double> content_sum;     // of all of site 4, as the scores have it
  std::vector<double> score;           // of all terms, after the bounds of site 5
  std::vector<double> slope;           // of the bounds, where they are
  std::vector<double> weight;          // softmax, or shares of the stick
  std::vector<double> dropout;         // factor of each weight
  double lse;                          // -infinity when no key is seen
  std::optional<std::size_t> own_key;  // the key at the query's own place
  std::vector<bool> later;             // keys after it

  [[nodiscard]] bool blind() const {  // no key is visible
    return std::find(visible.begin(), visible.end(), true) == visible.end();
  }
};

// The entry of a term's table for a key, as an index among the values of its parameter at channel 0; -1 for none.
std::int64_t relative_entry(const AttentionCall& call, const Head& head, const RelativeTerm& term,
                            std::int64_t query, std::size_t key);

Row evaluate_row(const AttentionCall& call, const Head& head, std::int64_t query);

// What the gates of a CoPE compare the query with, other than r_ij: [Tk, D]; empty for the raw
// score.
std::span<const double> gate_vectors(const AttentionCall& call, const Head& head,
                                     std::size_t encoding);

}  // namespace posenc::ref
