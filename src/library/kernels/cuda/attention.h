// The interface of the CUDA attention kernels: plain C++ with device pointers and an opaque stream. They compute
// posenc/kernels/attention.h for queries and keys that are already rotated (site 2). Nothing here allocates, and
// every launch is asynchronous on the stream.
//
// There are two families of kernels. The tuned kernels support bfloat16 and float16 with Toeplitz biases and a softcap,
// or with one of: CoPE with gates from the scores and up to kTunedPositions positions, FIRE, a term per token,
// stick-breaking. The general kernels (general.h) support the rest: float32, CoPE with gates of other keys, long tables,
// queries times distances, and FIRE, a term per token or stick-breaking with other terms, dropout or a padding mask.
//
// Unsupported (launch_* returns kUnsupported): more than 256 channels, channels that are not a multiple of 8, and the
// few combinations whose tiles exceed the shared memory of the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "posenc/core/status.h"

namespace posenc::cuda {

// A cudaStream_t; null is the default stream.
using Stream = void*;

// Float32 factors are sums of bfloat16 numbers in products, which the tensor cores multiply, and sums are
// float32: AttentionParams::float_parts.
enum class Element : std::uint8_t { kBFloat16, kFloat16, kFloat32 };

// [batch, heads, tokens, channels], strides in elements. Channels are contiguous; rows start at
// multiples of 16 bytes (pointer and strides).
struct Tensor4 {
  void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;
};

// One sequence of a batch entry, for packed sequences.
struct SegmentEntry {
  std::int32_t batch;
  std::int32_t first_query;
  std::int32_t queries;
  std::int32_t first_key;
  std::int32_t keys;
};

// The sum of all Toeplitz biases: table[head * head_stride + zero + (n - m)], n and m the places of
// query and key. Distances outside [-zero, span - zero) read as 0.
struct ToeplitzTable {
  const float* table = nullptr;  // null: none
  std::int64_t head_stride = 0;
  std::int64_t zero = 0;  // index of distance 0; Tq - 1 for a table of Tq + Tk - 1 entries
  std::int64_t span = 0;  // entries per head
};

// FIRE as a piecewise linear function of u = psi(|n - m|) * row_scale(n): in segment s of u the bias is
// slopes[h, s] * u + intercepts[h, s].
struct FireTable {
  int segments = 0;                   // 0: no FIRE
  const float* bounds = nullptr;      // [segments + 1], ascending, from -infinity to infinity
  const float* slopes = nullptr;      // [heads, segments]
  const float* intercepts = nullptr;  // [heads, segments]
  const float* psi = nullptr;   // [span] by distance n - m, index `zero` for 0, as ToeplitzTable
  const float* dpsi = nullptr;  // [span], its derivative by c; for the backward
  std::int64_t zero = 0;
  std::int64_t span = 0;
  const float* row_scale = nullptr;  // by place n: row_scale[n - lowest_place]
  std::int64_t lowest_place = 0;     // places are Tk - Tq + query; negative where Tq > Tk
};

// A term per token (posenc/encodings/token_term.h): at_query[i] - at_key[j] is added to a score. Sums are of many
// tokens, their differences are not: float64. CoPE's gates do not see it, and no kernel has both.
struct TokenTable {
  const double* at_query = nullptr;  // [B, H, Tq], contiguous; null: zeros
  const double* at_key = nullptr;    // [B, H, Tk], contiguous; null: no such term
  // Tiles of 64 that are left out (token_prune.h): by tile of queries the first tile of keys, [sequences, H,
  // query_tiles], and by tile of keys the end of the tiles of queries, [sequences, H, key_tiles]. Both rise along the
  // tiles. Null: none is.
  const std::int32_t* first_kept = nullptr;
  const std::int32_t* end_kept = nullptr;
  std::int32_t query_tiles = 0;
  std::int32_t key_tiles = 0;
};

// Queries times distances (posenc/encodings/relative_query.h): factor u_i . table[:, entry] is added to a score, the
// entry that of the distance n - m. No kernel has it with CoPE.
struct RelativeTable {
  int entries = 0;               // 0: none
  int lowest = 0;                // distance of the first entry
  bool clips = false;            // farther keys read the entry at the end; else they get nothing
  int rank = 0;                  // at most the padded head_dim (64, 128, 256)
  const float* table = nullptr;  // [rank, entries], or with a head stride [heads, rank, entries]
  std::int64_t head_stride = 0;
  float factor = 1.0f;
  // [B, H, Tq, rank rounded up to a multiple of 8, zeros past rank]; null data: q, with rank = head_dim.
  Tensor4 u;
};

inline constexpr int kTunedPositions = 256;
inline constexpr int kMostPositions = 65536;

// CoPE. Exactly one of pos_emb and slopes is given.
struct CopeTable {
  int npos_max = 0;                // 0: no CoPE
  const float* pos_emb = nullptr;  // [head_dim, npos_max], float32 (variant interpolate)
  const float* slopes = nullptr;   // [heads] (variant alibi)
  float logit_scale = 1.0f;        // of the position logit: 1, or 1/sqrt(head_dim)
  bool gates_see_bias = false;     // those of the table and of FIRE
  // The queries before site 2, which the position logits and gates of other keys read (shaped as q);
  // null data: q itself.
  Tensor4 plain_q;
  // Gates are sigmoid(scale * plain_q . gate_k), [B, Hkv, Tk, D]; it may be v. Null data: gates from the
  // raw scores.
  Tensor4 gate_k;
};

// A paged cache (posenc/kernels/block_table.h), for the decode kernels alone: k and v are pools, whose batch_stride goes
// from page to page. Nothing of it is read on the host. An entry that is no page of the pools, or a length past the
// table's pages, makes the rows of its sequence NaN.
struct PageTable {
  const std::int32_t* pages = nullptr;  // device, [batch, stride]; null: keys are contiguous
  const std::int64_t* lengths =
      nullptr;  // device, [batch]: tokens of each sequence, at most AttentionParams::keys
  std::int64_t stride = 0;     // from row to row of `pages`
  std::int32_t page_bits = 0;  // a page has 2^page_bits tokens, at least kLeastPage
  std::int32_t pool = 0;       // pages of the pools
};
inline constexpr std::int64_t kLeastPage = 16;

struct AttentionParams {
  Element element = Element::kBFloat16;
  // Parts of a float32 factor: 2 keep 16 bits of it and take three products, 3 keep all 24 and take six.
  // Three are served up to 128 channels.
  std::int32_t float_parts = 3;
  std::int32_t batch = 1;
  std::int32_t heads = 1;
  std::int32_t kv_heads = 1;
  std::int32_t queries = 0;
  std::int32_t keys = 0;
  std::int32_t head_dim = 64;  // a multiple of 8, at most 256
  float scale = 1.0f;          // of q . k; 1/sqrt(head_dim) as a rule
  Tensor4 q;
  Tensor4 k;
  Tensor4 v;
  Tensor4 out;           // forward: written; backward: read
  float* lse = nullptr;  // [B, H, Tq]; forward: written (may be null); backward: read

  // Keys m that place n sees: n - window_left <= m <= n + window_right; -1: no bound. Causal is
  // window_right = 0.
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  const std::uint8_t* key_mask = nullptr;  // device, [batch, keys], 0 for padding

  PageTable pages;

  // Packed sequences: device table of `segment_count` entries (batch entries included); null: one
  // sequence per batch entry. The longest lengths, for the grid.
  const SegmentEntry* segments = nullptr;
  std::int32_t segment_count = 0;
  std::int32_t max_queries = 0;
  std::int32_t max_keys = 0;

  ToeplitzTable toeplitz;
  FireTable fire;
  CopeTable cope;
  TokenTable tokens;
  // Scores s become cap tanh(s / cap) after all terms and before the mask; 0: none. The tuned kernels take the tanh of
  // the hardware, whose relative error is 2^-11; the others an exact one.
  float softcap = 0.0f;
  RelativeTable relative;
  // Stick-breaking in place of the softmax (posenc/encodings/stick_breaking.h), without sinks and CoPE. `lse` is the
  // logarithm of what is left of a row. A row stops where less than 2^-126 is left: further weights would be 0 in
  // float32. What `lse` says below -87.3 is then an upper bound.
  bool breaks_sticks = false;
  const float* sinks = nullptr;  // device, [heads], the logits of encodings/sink.h; null: none

  // As core/dropout.h: dropped where the drawn word is below the threshold, else scaled.
  std::uint32_t dropout_threshold = 0;  // 0: no dropout
  float dropout_scale = 1.0f;           // 1 / (1 - rate)
  std::uint64_t dropout_seed = 0;

  void* workspace = nullptr;  // device, forward_workspace_bytes() or backward_workspace_bytes()
  std::size_t workspace_bytes = 0;
};

struct AttentionBackwardParams {
  AttentionParams forward;  // as called; out and lse hold its results; workspace is the backward's
  Tensor4 grad_out;         // [B, H, Tq, D]
  Tensor4 dq;               // gradient of the rotated queries
  Tensor4 dk;               // [B, Hkv, Tk, D]
  Tensor4 dv;
  // Where plain_q was given: the gradient that goes to the queries before site 2. Else that part is
  // in dq.
  Tensor4 dplain_q;
  Tensor4 dgate_k;             // where gate_k was given, [B, Hkv, Tk, D]; written
  float* dtoeplitz = nullptr;  // [heads, span], contiguous; written; null: not wanted
  float* dpos_emb = nullptr;   // [head_dim, npos_max] or, for slopes, [heads]; written; may be null
  // Sums of the gradient at the scores over keys, [B, H, Tq], which is the gradient at at_query, and over queries,
  // [B, H, Tk], minus that at at_key; written where there is a term per token; both null: not wanted. A row's
  // gradients sum to zero only up to the rounding of `out`, and so many rows' sums would not: both are needed.
  float* dtoken_queries = nullptr;
  float* dtoken_keys = nullptr;
  // Of queries times distances: shaped as RelativeTable::u, written where that was given (else it is in dq), and as
  // its table, written; null: not wanted.
  Tensor4 drelative_u;
  float* drelative_table = nullptr;
  // FIRE, all written, or null: not wanted. Per segment the sums of db u and of db; per row those of
  // db slope dpsi (what c asks through psi, still to be multiplied by the row's scale) and of
  // db slope psi (the gradient of the row's scale).
  float* dfire_segments = nullptr;  // [heads, segments, 2]
  float* dfire_rows = nullptr;      // [B, H, Tq, 2]
  // CoPE keeps sums per query and tile of keys; queries are taken so many at a time that they fit.
  std::int64_t chunk_bytes = std::int64_t{512} << 20;
};

// Whether the tiles of the general backward fit into shared memory: those of float32 in parts with more
// than 128 channels do not if CoPE has separate gate keys. The forward's do.
constexpr bool backward_fits(int head_dim, bool float32, bool own_gates) {
  return head_dim <= 128 || !float32 || !own_gates;
}

// Bytes that `workspace` must hold, aligned to 256; 0: none. Linear in the lengths.
std::size_t forward_workspace_bytes(const AttentionParams& params) noexcept;
std::size_t backward_workspace_bytes(const AttentionBackwardParams& params) noexcept;

// Arguments are checked first; on an error nothing is launched.
Status launch_attention_forward(const AttentionParams& params, Stream stream) noexcept;
Status launch_attention_backward(const AttentionBackwardParams& params, Stream stream) noexcept;

}  // namespace posenc::cuda
