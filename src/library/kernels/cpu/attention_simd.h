// The SIMD part of attention: one block of queries of one head against all its keys.
//
// Scores are tiles of kKeyBlock keys x kQueryBlock queries with queries along the vector. The maximum,
// the sum and CoPE's running gate sum of a query are then one lane each, and there are no sums across
// lanes. Tiles are processed from the diagonal to key 0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/aligned.h"
#include "posenc/core/dropout.h"

namespace posenc::cpu {

inline constexpr std::size_t kQueryBlock = 64;
inline constexpr std::size_t kKeyBlock = 128;
// Steps of a chain whose queries are kept for the backward.
inline constexpr std::size_t kStepBlock = 16;

// What a row carries from tile to tile. CoPE's gate sums: kQueryBlock whole parts, then as many fractions. Of a stick:
// what is left, then what its logarithm has lost besides; where that is not 0, what is left counts as nothing.
inline constexpr std::size_t kCarry = 2 * kQueryBlock;

// Rows of float32 channels, padded with zeros to whole vectors.
struct Rows {
  const float* data = nullptr;
  std::size_t stride = 0;
};

// CoPE as the kernel sees it: a table of logits per query and where the gates come from.
struct CopeProblem {
  std::size_t npos = 0;              // 0: no CoPE
  std::size_t stride = 0;            // floats per row of a table, at least npos + 1
  const float* embedding = nullptr;  // [dim][stride], scaled; z = q embedding
  const float* shared = nullptr;     // or one table for all queries (ALiBi-like), [stride]
  Rows gate_keys;                    // absent: gates from the raw scores
  float gate_scale = 1.0f;           // of q . gate key
  bool sees_bias = false;
  bool open = false;  // every gate is 1
};

// FIRE as the kernel sees it. Its network is piecewise linear, so the bias is slope u + intercept on
// the segment that u falls into, with u = psi[n - m] * row_scale[n].
struct FireProblem {
  std::size_t segments = 0;          // 0: no FIRE
  const float* psi = nullptr;        // by distance n - m, as HeadProblem::toeplitz
  const float* dpsi = nullptr;       // its derivative with respect to c
  const float* row_scale = nullptr;  // by place n, readable a block past the last
  const float* bounds = nullptr;     // segments + 1, from -infinity to infinity
  const float* slopes = nullptr;     // per segment
  const float* intercepts = nullptr;
};

// A vector per distance as the kernel sees it (relative_query.h): a query has one product per entry. Entries that no
// key of the call is at are left out.
struct RelativeProblem {
  std::size_t channels = 0;           // 0: no such term
  std::size_t channel_stride = 0;     // floats per row of QueryBlock::relative and of `transposed`
  std::size_t stride = 0;             // floats per row of `table`
  const float* table = nullptr;       // [channels][stride], scaled
  const float* transposed = nullptr;  // [entries][channel_stride], zero past the channels
  bool finite = true;                 // the whole table
  std::int64_t lowest = 0;            // distance of the first entry
  std::int64_t highest = -1;          // of the last
  bool clips = false;

  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(highest - lowest + 1);
  }
  // Products are read as rows of lanes: entry m + r for query r of a block, whose first query is m past a key. Before
  // the first row and past the last all lanes are beyond the table.
  [[nodiscard]] std::size_t rows() const { return entries() + 1 + kQueryBlock; }
  [[nodiscard]] std::size_t row(std::int64_t m) const {
    const std::int64_t first = lowest - static_cast<std::int64_t>(kQueryBlock);
    return static_cast<std::size_t>(std::clamp(m, first, highest + 1) - first);
  }
};

// A chain of steps in place of the product of queries and keys (path.h, wall.h), as the kernel sees it. Above a tile of
// keys a query has passed the steps of all tokens down to the tile's end: scores are then products with keys that the
// steps of their tile have been applied to, and one matrix takes the query past the tile. In the tiles of its own
// token a query makes the steps one by one.
struct ChainProblem {
  enum class Kind { kNone, kHouseholder, kGates };
  Kind kind = Kind::kNone;
  Rows steps;                      // w, or the gates; 0, or 1, where a key is hidden
  const float* factors = nullptr;  // b of every key
  Rows keys;                       // as the end of their tile meets them
  const float* tiles = nullptr;    // the matrices: [dim][padded_dim], or a diagonal [padded_dim]

  [[nodiscard]] std::size_t tile_size(std::size_t dim, std::size_t padded_dim) const {
    return kind == Kind::kHouseholder ? dim * padded_dim : padded_dim;
  }
};

// One head of one sequence.
struct HeadProblem {
  std::size_t dim = 0;  // of queries and keys
  std::size_t padded_dim = 0;
  std::size_t value_dim = 0;  // of values and outputs
  std::size_t padded_value_dim = 0;
  std::size_t keys = 0;
  Rows k;
  Rows v;
  std::int64_t place_offset = 0;  // place of query 0: keys - queries
  std::int64_t window_left = 0;   // keys seen: place - left .. place + right
  std::int64_t window_right = 0;
  const std::uint8_t* key_mask = nullptr;
  const float* toeplitz =
      nullptr;  // bias at distance n - m: toeplitz[n - m]; readable a block past
  // The token term's sums c of every key, as queries and as keys read them; null: no such term.
  const double* token_query = nullptr;
  const double* token_key = nullptr;
  bool token_running = false;    // whether they are sums; else queries read 0
  std::int64_t token_first = 0;  // the first place that token_query has
  bool prunes = false;           // skips tiles of keys with negligible weight
  float largest_key = 0.0f;      // norm of the keys after site 2, for pruning
  FireProblem fire;
  CopeProblem cope;
  RelativeProblem relative;
  ChainProblem chain;
  float softcap = 0.0f;        // bound of the scores; 0: none
  bool has_pairs = false;      // Workspace::pairs is a term of the scores
  bool breaks_sticks = false;  // in place of the softmax
  Dropout dropout;
  std::int64_t batch = 0;  // what the dropout's counter reads
  std::int64_t head = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;

  // c of the query at a place; 0 before the first.
  [[nodiscard]] double token_sum(std::int64_t place) const {
    return place < token_first ? 0.0 : token_query[place];
  }
  // Whether the query at a place sees a key.
  [[nodiscard]] bool sees(std::int64_t place, std::int64_t key) const {
    if (key_mask != nullptr && key_mask[key] == 0) return false;
    return place - key <= window_left && key - place <= window_right;
  }
};

// Up to kQueryBlock queries; rows past `count` are zero.
struct QueryBlock {
  std::size_t first = 0;
  std::size_t count = 0;
  const float* rows = nullptr;   // [kQueryBlock][padded_dim], after site 2 and times the scale
  const float* plain = nullptr;  // before both, where they are read
  const float* relative =
      nullptr;  // [kQueryBlock][channel_stride]: what RelativeProblem multiplies
};

// Tiles of one thread.
class Workspace {
 public:
  struct Sizes {
    std::size_t padded_dim = 0;
    std::size_t padded_value_dim = 0;
    std::size_t npos_stride = 0;      // of CoPE's tables; 0: no CoPE
    std::size_t relative_stride = 0;  // of RelativeProblem; 0: no such term
    std::size_t relative_rows = 0;
    std::size_t keys = 0;
    bool breaks_sticks = false;
    bool has_pairs = false;
    bool chains = false;
    bool backward = false;
  };
  explicit Workspace(const Sizes& sizes);

  AlignedFloats q_transposed;  // [dim][kQueryBlock]
  AlignedFloats rows_before;   // of outputs: what a pass adds to, where it is repeated
  AlignedFloats g_transposed;  // [value_dim][kQueryBlock], output gradients
  AlignedFloats plain_transposed;
  AlignedFloats scores;  // [kKeyBlock][kQueryBlock]
  AlignedFloats dscores;
  AlignedFloats gate_logits;
  AlignedFloats gates;
  AlignedFloats segments;  // CoPE's positions: whole part, clipped to the table, and fraction
  AlignedFloats fractions;
  AlignedFloats tables;  // [kQueryBlock][npos_stride]
  AlignedFloats dtables;
  AlignedFloats carries;   // [key blocks + 1][kCarry]
  AlignedFloats products;  // [kQueryBlock][relative_stride], or their gradients
  AlignedFloats sheared;   // [relative_rows][kQueryBlock], as RelativeProblem reads them
  AlignedFloats dsheared;
  AlignedFloats cap_slopes;  // of bounded scores that a stick is broken by
  AlignedFloats pairs;       // [keys][kQueryBlock], filled by the caller: a term of the scores
  AlignedFloats dpairs;      // its gradient; 0 where a key is hidden
  // Of a chain: queries past a tile, [dim][kQueryBlock]; above every tile; above every kStepBlock keys of a tile; at
  // every key of those; and rows of queries and of their gradients, [kQueryBlock][padded_dim].
  AlignedFloats chain_next;
  AlignedFloats chain_tops;
  AlignedFloats chain_marks;
  AlignedFloats chain_met;
  AlignedFloats chain_along;  // [kStepBlock][kQueryBlock]: products with w
  AlignedFloats chain_rows;
  AlignedFloats chain_scratch;
  // Token terms of a tile, less those of the block's first query, as sums of two floats: where a query's and a
  // key's nearly cancel, the sum of the large parts is exact.
  std::array<float, kQueryBlock> query_terms{}, query_rests{};
  std::array<float, kKeyBlock> key_terms{}, key_rests{};
};

// What the rows of a block know of the keys so far, which are visited from the last to the first.
struct RowState {
  std::array<float, kQueryBlock> maximum;  // of the scores
  std::array<float, kQueryBlock> sum;      // of exp(score - maximum)
  std::array<float, kQueryBlock> seen;     // 1 where a key was visible, as far as anything asks
  std::array<float, kCarry> carry;
};
RowState first_state(const HeadProblem& problem);
// RowState::carry of lanes without a query: CoPE has counted as far as its table goes, so that no tile waits for them.
std::array<float, kCarry> idle_carry(const HeadProblem& problem);
// Adds all keys of a problem to rows that are not divided yet, [kQueryBlock][padded_value_dim].
void attention_add_keys(const HeadProblem& problem, const QueryBlock& block, Workspace& space,
                        RowState& state, float* out);
// Divides rows that have all their keys by their sums; lse [kQueryBlock].
void attention_finish_rows(const HeadProblem& problem, const QueryBlock& block,
                           const RowState& state, float* out, float* lse);

// The three in one: out [kQueryBlock][padded_value_dim] and lse [kQueryBlock].
void attention_forward_block(const HeadProblem& problem, const QueryBlock& block, Workspace& space,
                             float* out, float* lse);

struct BackwardInputs {
  const float* grad_out = nullptr;  // [kQueryBlock][padded_value_dim], zero past count
  const float* lse = nullptr;       // [kQueryBlock]
  const float* delta = nullptr;     // SUM over channels of grad_out * out
  // Where the problem has a slice of the keys: RowState::carry as it was before them, and what the keys before them
  // have added up to for CoPE's gates or for a stick, [kQueryBlock], which goes on. Null: there are no others.
  const float* carry = nullptr;
  float* prefix = nullptr;
};

// Everything is added to, except the queries' gradients of this block, which are written.
struct BackwardOutputs {
  float* dq = nullptr;        // [kQueryBlock][padded_dim], of the rows after site 2, scale included
  float* dq_plain = nullptr;  // of the plain rows, where they are read
  float* drelative_rows = nullptr;   // of QueryBlock::relative; may be dq_plain
  float* drelative_table = nullptr;  // [channels][stride], of the scaled table
  float* dk = nullptr;               // [keys][padded_dim]
  float* dv = nullptr;               // [keys][padded_value_dim]
  float* dgate_keys = nullptr;
  float* dchain_keys = nullptr;      // of ChainProblem, likewise
  float* dchain_tiles = nullptr;     // of its matrices
  float* dsteps = nullptr;           // [keys][padded_dim]: of w, or of the logarithms of gates
  float* dfactors = nullptr;         // [keys]
  float* dtoeplitz = nullptr;        // as HeadProblem::toeplitz
  double* dtoken_sums = nullptr;     // [keys], of the token term's sums
  double* dtoken_queries = nullptr;  // as HeadProblem::token_query: dtoken_sums, but for slices
  float* dembedding = nullptr;       // [dim][npos stride], of the scaled table
  float* dshared = nullptr;          // [npos stride]
  // FIRE: per segment SUM of db u and of db; and per query of the block (written) SUM over keys of
  // db slope dpsi and of db slope psi.
  double* dfire_slopes = nullptr;
  double* dfire_intercepts = nullptr;
  float* dfire_psi = nullptr;
  float* dfire_scale = nullptr;
};

void attention_backward_block(const HeadProblem& problem, const QueryBlock& block,
                              const BackwardInputs& in, Workspace& space,
                              const BackwardOutputs& out);

// Lanes of the vectors in use: what padded_dim and npos stride are multiples of.
std::size_t vector_lanes();

}  // namespace posenc::cpu
