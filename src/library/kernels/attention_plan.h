// Internal state of plans and attention calls after validation of the arguments.
#pragma once

#include <string>
#include <vector>

#include "core/aligned.h"
#include "kernels/attention_call.h"
#include "kernels/cpu/attention_simd.h"
#include "kernels/fire_tables.h"
#include "kernels/rope_rows.h"
#include "kernels/toeplitz_tables.h"

namespace posenc {

class PairTerm;
struct AttentionSlice;
struct SliceGradients;

// The terms, and the tables that are kept between calls.
struct AttentionPlan::State : Terms {
  CachePolicy policy;
  std::vector<std::unique_ptr<RotaryCache>>
      tables;  // per site-2 encoding; null where alpha is trained
  ToeplitzCache toeplitz;
};

// Entries of the key mask for a segment, or nothing where there is none.
std::span<const std::uint8_t> real_keys(const AttentionCall& call, const Segment& segment);

// The gradient of CoPE's input in a backward call; null where its gates read none.
const TensorView* gate_gradient(const AttentionBackwardCall& call);

// Everything that a call computes before the first tile, kept in float32.
struct AttentionSetup {
  AttentionSetup();
  ~AttentionSetup();
  AttentionSetup(AttentionSetup&&) noexcept;  // pairs refer to it: none may be there yet
  AttentionSetup& operator=(AttentionSetup&&) = delete;

  const AttentionCall* call = nullptr;
  const AttentionPlan::State* state = nullptr;
  const AttentionSlice* slice = nullptr;  // of a longer sequence; null: the call is all of it
  std::vector<Segment> segments;
  std::size_t dim = 0;  // of queries and keys
  std::size_t padded_dim = 0;
  std::size_t value_dim = 0;  // of values and outputs
  std::size_t padded_value_dim = 0;
  float scale = 1.0f;

  std::vector<const RotaryCache*> tables;  // per site-2 encoding
  std::vector<std::unique_ptr<RotaryCache>> own_tables;
  std::vector<std::int64_t> q_ids;  // [B, Tq, axes]
  std::vector<std::int64_t> k_ids;
  std::int64_t axes = 1;  // coordinates of a position

  // Of rotations whose angles are an input: cos and sin of the keys from `first` on, [B, Hkv, keys, pairs], and of a
  // token without one. Where the keys are already rotated, these are the places of queries alone. One per site-2
  // encoding, empty for angles from positions.
  struct InputAngles {
    std::int64_t first = 0;
    std::int64_t keys = 0;
    std::vector<float> cos;
    std::vector<float> sin;
    std::vector<float> still_cos;
    std::vector<float> still_sin;
  };
  std::vector<InputAngles> input_angles;
  std::vector<std::int64_t> own_keys;  // [B, Tq]: the key at a query's place, or -1

  std::shared_ptr<const ToeplitzTables> toeplitz;  // null where there are no such biases
  DistanceRange distances;

  FireTables fire;
  std::vector<double>
      token_query;  // the token term's sums (token_term.h), [B, H, Tk]; [B, H, Tq] in a slice
  std::vector<double> token_key;
  std::vector<float> largest_keys;  // norms, [segments, Hkv]; empty where nothing is pruned

  // Path and Wall: what their tiles read, [B * Hkv][Tk][padded_dim] and [B * Hkv][Tk], and a matrix per tile.
  struct Chain {
    cpu::ChainProblem::Kind kind = cpu::ChainProblem::Kind::kNone;
    AlignedFloats steps;
    AlignedFloats factors;
    AlignedFloats keys;
    AlignedFloats tiles;
    std::vector<std::size_t> first_matrix;  // of each segment, whose heads follow each other
  };
  Chain chain;
  // `s` is one of the segments.
  [[nodiscard]] cpu::ChainProblem chain_of(const Segment& s, std::int64_t kv_head) const;

  std::vector<std::vector<float>> sinks;  // [heads] of each
  // Divides a row and its log-sum-exp among its keys and the sinks of the head.
  void share_with_sinks(std::int64_t head, float* row, float& lse) const;

  // What the temperatures multiply every query by, [B, H, Tq]; empty where there are none.
  std::vector<float> query_factors;
  // The scale of the scores of a query, temperatures included.
  [[nodiscard]] float scale_of(std::int64_t batch, std::int64_t head, std::int64_t query) const;

  // RelativeQuery: scaled tables, one or one per head, and what the kernel knows of each but for the pointers.
  AlignedFloats relative_tables;      // [tables][channels][stride]
  AlignedFloats relative_transposed;  // [tables][entries][channel_stride]
  cpu::RelativeProblem relative_form;
  [[nodiscard]] const RelativeQuery* relative_query() const {
    return state->config<RelativeQuery>(state->relative_query);
  }
  // Whether the kernel reads queries before site 2.
  [[nodiscard]] bool reads_plain() const {
    return cope() != nullptr || (relative_query() != nullptr && !relative_query()->reads_input());
  }
  // What the table is multiplied with in a block of queries, [kQueryBlock][channel_stride]: rows of the input, zero where
  // it has none, or queries with a vector added. Nothing where it is the plain queries.
  void read_relative(const Segment& s, std::int64_t head, const cpu::QueryBlock& block,
                     AlignedFloats& rows) const;
  [[nodiscard]] cpu::Workspace::Sizes workspace(std::int64_t keys, bool backward) const;

  // Transformer-XL's vectors of a head, one added to the query of the product with keys; null where there are none.
  [[nodiscard]] const double* content_of(std::int64_t head) const;

  std::vector<std::unique_ptr<PairTerm>> pairs;  // of Terms::pairs

  // CoPE: scaled table [dim][stride], or per head a shared one [heads][stride].
  AlignedFloats cope_table;
  std::size_t cope_npos = 0;
  std::size_t cope_stride = 0;

  // Keys and values as rows, where the tensors themselves do not serve: [B * Hkv][Tk][padded_dim], or padded_value_dim.
  AlignedFloats k_rows;
  AlignedFloats v_rows;
  AlignedFloats gate_rows;

  [[nodiscard]] const Cope* cope() const { return state->config<Cope>(state->cope); }
  [[nodiscard]] cpu::Rows k_of(const Segment& s, std::int64_t kv_head) const;
  [[nodiscard]] cpu::Rows v_of(const Segment& s, std::int64_t kv_head) const;
  [[nodiscard]] cpu::Rows gates_of(const Segment& s, std::int64_t kv_head) const;
  // What CoPE's gates compare the query with: values, or an input. Only with has_gate_vectors.
  [[nodiscard]] const ConstTensorView& gate_vectors() const;
  [[nodiscard]] cpu::HeadProblem problem(const Segment& s, std::int64_t head) const;
};

// Checks that need no tensor data; then builds the setup (allocates, may throw bad_alloc).
Status check_attention(const AttentionCall& call, KeyTypes types = KeyTypes::kOfQueries) noexcept;
// `pack_rows`: keys and values as float32 rows too, which decoding does without.
Status prepare_attention(const AttentionCall& call, AttentionSetup& setup, bool pack_rows = true,
                         const AttentionSlice* slice = nullptr);

// Every distance n - m that a block may read: keys past the query, and queries past the last one (those lanes are read
// and not used).
DistanceRange distances_of(const AttentionCall& call, const std::vector<Segment>& segments);
// Whether the tensor's rows can be read without packing: float32, whole vectors, not rotated, not in pages.
bool serves_as_rows(const AttentionCall& call, const ConstTensorView& x, std::size_t padded_dim);
// Whether keys are rotated while they are packed.
bool turns_keys(const AttentionCall& call);

// Scratch memory to rotate one row by all site-2 encodings.
class RowTurner {
 public:
  explicit RowTurner(const AttentionSetup& setup);
  // Turns a float32 row of a query (role kQuery, head of H) or key (head of Hkv) in place.
  void forward(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
               std::int64_t token, float* row);
  // From the gradient of the rotated row to that of the plain one, in place; adds to the gradients of
  // the frequencies (one buffer of groups x pairs per encoding, null where they are constants). Where an input gives
  // the angles the buffer has theirs, [keys][pairs] from key `first_key` on.
  void backward(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                std::int64_t token, const float* plain, float* row,
                const std::vector<double*>& dfrequencies, std::int64_t first_key = 0);

  // Rotations with values=true: of a value (role kKey), or of the output at a query back (role kQuery). Their backward
  // is as above; `plain` is what was rotated.
  void turn_value(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                  std::int64_t token, float* row);
  void value_backward(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                      std::int64_t token, const float* plain, float* row,
                      const std::vector<double*>& dfrequencies, std::int64_t first_key);

 private:
  // A token, as the rotations look its angles up.
  struct Token {
    Role role;
    std::int64_t head;
    std::int64_t heads;
    std::int64_t batch;
    std::int64_t index;
  };
  void load(std::size_t encoding, const Token& token);
  [[nodiscard]] cpu::RopeAngles table_angles(std::size_t encoding, const Token& token);
  [[nodiscard]] cpu::RopeAngles input_angles(std::size_t encoding, const Token& token) const;
  // The key whose angles a token has; -1 for none.
  [[nodiscard]] std::int64_t key_of(const Token& token) const;
  void turn(std::size_t encoding, bool back, float* row);
  // Adds the gradient of the angles of a stage that rotates `before`, with `row` the gradient after it.
  void add_angle_gradient(std::size_t encoding, const Token& token, bool back, const float* before,
                          const float* row, double* gradient, std::int64_t first_key);
  [[nodiscard]] std::vector<std::size_t> value_stages(Role role) const;
  [[nodiscard]] std::int64_t position(Role role, std::int64_t batch, std::int64_t token,
                                      std::int64_t axis) const;

  const AttentionSetup& setup_;
  std::vector<cpu::RopeRowPlan> plans_;
  AlignedFloats raw_;
  AlignedFloats cos_;
  AlignedFloats sin_;
  AlignedFloats expanded_cos_;
  AlignedFloats expanded_sin_;
  cpu::RopeAngles angles_{};
  AlignedFloats before_;
  AlignedFloats window_;
  AlignedFloats pair_sums_;
};

// A row of any type as float32, padded with zeros; and back.
void read_row(const ConstTensorView& view, std::int64_t b, std::int64_t h, std::int64_t t,
              std::size_t padded_dim, float* out);
void write_row(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t t,
               const float* row);

}  // namespace posenc
