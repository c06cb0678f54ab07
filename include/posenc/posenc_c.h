// posenc from C: positional encodings in attention. Plain C99; link posenc_c.
//
//   x_t  = token_t + SUM_a E_a(t)                          site 1  input      learned, sinusoidal
//   q'_i = PROD_b T_b(i) q_i,  k'_j = PROD_b T_b(j) k_j    site 2  query/key  rope, xpos
//   r_ij = scale * <q'_i, k'_j>                            the raw score
//   s_ij = r_ij + SUM_c B_c(h, i, j)                       site 3  bias       alibi, t5, kerple,
//                                                                             fire, relative
//               + C(q_i, r_i*, i, j)                       site 4  content    cope
//   o_i  = SUM_j softmax_j(mask(s_ij)) v_j
//
// A spec is a list of encodings, written as text, JSON or YAML (posenc/encodings/spec.h). What each
// operation computes is written out in the C++ headers named below; results are the same bits.
//
// Results.  Every function that can fail returns a status: POSENC_OK or a negative code. Functions
//   that count something return the count, or a negative code. posenc_last_error() then says in one
//   line which argument is wrong, by which rule and with which value. Arguments are checked before
//   anything is written; on an error no output is touched. Nothing is printed, nothing is thrown.
// Ownership.  What a *_create, *_copy or posenc_spec_from_* function returns belongs to the caller,
//   who frees it with the matching *_free (which accepts NULL). Handles may be freed in any order:
//   one that needs another keeps what it needs. Tensors and arrays are borrowed for the call alone.
// Threads.  Any thread may use any handle; a handle that is being changed (posenc_parameters_set_*,
//   a gradient that is written, posenc_linear_state_step) is for one thread at that moment. Kernels
//   share one pool of threads; results are the same bits for any number of them.
// Growing.  A struct that starts with struct_size may get more fields at its end. Set struct_size to
//   its sizeof and all that is not used to zero, which is always the default:
//       posenc_rope_call call = {.struct_size = sizeof call};
//   A program compiled against an older or newer header works with this library as long as the
//   fields that the library does not know are zero. The structs without struct_size never change.
//   POSENC_ABI_VERSION, which is the shared library's version too, changes when something breaks.
#ifndef POSENC_POSENC_C_H_
#define POSENC_POSENC_C_H_

#include <stddef.h>
#include <stdint.h>

#include "posenc/core/version.h"

#ifdef __cplusplus
#define POSENC_C_NOEXCEPT noexcept
extern "C" {
#else
#define POSENC_C_NOEXCEPT
#endif

#if defined(__GNUC__)
#define POSENC_C_API __attribute__((visibility("default")))
#else
#define POSENC_C_API
#endif

#define POSENC_ABI_VERSION 2

// Status.

typedef int32_t posenc_status;

enum {
  POSENC_OK = 0,
  POSENC_INVALID_ARGUMENT = -1,  // a null pointer, a bad shape, size or stride, overlapping tensors
  POSENC_OUT_OF_RANGE = -2,      // a value, an index or a position that is not allowed
  POSENC_UNSUPPORTED = -3,       // a combination that no path serves, or a field from the future
  POSENC_RESOURCE_EXHAUSTED = -4,  // no memory, or a cap on memory was reached
  POSENC_BAD_SPEC = -5,            // not a spec: syntax, an unknown or missing key, a wrong type
  POSENC_INTERNAL = -6             // a mistake inside the library; please report it
};

// "ok", "invalid_argument", ...; "unknown" for other numbers.
POSENC_C_API const char* posenc_status_name(posenc_status status) POSENC_C_NOEXCEPT;
// What the last call that failed on this thread said, "" if none did. Valid until the next call that
// fails on this thread; calls that succeed leave it.
POSENC_C_API const char* posenc_last_error(void) POSENC_C_NOEXCEPT;

// The library.

// Of the library that runs; POSENC_VERSION_STRING and POSENC_ABI_VERSION are of the header.
POSENC_C_API const char* posenc_version(void) POSENC_C_NOEXCEPT;
POSENC_C_API uint32_t posenc_abi_version(void) POSENC_C_NOEXCEPT;

// Threads of the kernels, at most 4096; below 1 means as many as the machine has cores.
POSENC_C_API posenc_status posenc_set_num_threads(int32_t threads) POSENC_C_NOEXCEPT;
POSENC_C_API int32_t posenc_num_threads(void) POSENC_C_NOEXCEPT;

// Specs.

// Immutable.
typedef struct posenc_spec posenc_spec;

// "rope(theta=500000) + alibi"; [{"rope": {"theta": 500000}}, "alibi"]; or the same as YAML.
POSENC_C_API posenc_status posenc_spec_from_text(const char* text,
                                                 posenc_spec** spec) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_spec_from_json(const char* json,
                                                 posenc_spec** spec) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_spec_from_yaml(const char* yaml,
                                                 posenc_spec** spec) POSENC_C_NOEXCEPT;
POSENC_C_API void posenc_spec_free(posenc_spec* spec) POSENC_C_NOEXCEPT;
// The same spec with rotations that follow the length (dynamic, longrope, xpos without a center) made
// constant, as they are at this length (posenc/encodings/length.h).
POSENC_C_API posenc_status posenc_spec_at_length(const posenc_spec* spec, int64_t length,
                                                 posenc_spec** fixed) POSENC_C_NOEXCEPT;

// As snprintf: at most capacity - 1 characters and a 0 are written, and the length of the whole is
// returned, without the 0. buffer may be NULL where capacity is 0. The hash has 16 hexadecimal
// digits and is the same for all forms of a spec.
POSENC_C_API int64_t posenc_spec_to_text(const posenc_spec* spec, char* buffer,
                                         size_t capacity) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_spec_to_json(const posenc_spec* spec, char* buffer,
                                         size_t capacity) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_spec_to_yaml(const posenc_spec* spec, char* buffer,
                                         size_t capacity) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_spec_hash(const posenc_spec* spec, char* buffer,
                                      size_t capacity) POSENC_C_NOEXCEPT;

// The slopes of the spec's first alibi, heads of them (posenc/encodings/alibi.h).
POSENC_C_API posenc_status posenc_alibi_slopes(const posenc_spec* spec, int64_t heads,
                                               double* slopes, size_t count) POSENC_C_NOEXCEPT;
// The bucket of the spec's first t5 for a key at relative = key position - query position
// (posenc/encodings/t5.h).
POSENC_C_API int64_t posenc_t5_bucket(const posenc_spec* spec, int64_t relative) POSENC_C_NOEXCEPT;

// Parameters.

// The part of a model that an encoding must know. Sizes are at most 2^24.
typedef struct posenc_shape {
  int64_t head_dim;
  int64_t heads;
  int64_t model_dim;  // 0: heads * head_dim
} posenc_shape;

// Values of all parameters of a spec, or gradients with respect to them: float64, row-major, each
// under a stable name ("alibi.slopes", "cope.pos_emb", "alibi_2.slopes").
typedef struct posenc_parameters posenc_parameters;

// With the initial values; those that are random follow from the seed.
POSENC_C_API posenc_status
posenc_parameters_create(const posenc_spec* spec, const posenc_shape* shape, uint64_t seed,
                         posenc_parameters** parameters) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_parameters_copy(const posenc_parameters* from,
                                                  posenc_parameters** copy) POSENC_C_NOEXCEPT;
POSENC_C_API void posenc_parameters_free(posenc_parameters* parameters) POSENC_C_NOEXCEPT;

POSENC_C_API int64_t posenc_parameters_count(const posenc_parameters* parameters) POSENC_C_NOEXCEPT;
// The index of a name, from 0 on.
POSENC_C_API int64_t posenc_parameters_find(const posenc_parameters* parameters,
                                            const char* name) POSENC_C_NOEXCEPT;
// The name of an index, as long as the handle lives; NULL on an error.
POSENC_C_API const char* posenc_parameters_name(const posenc_parameters* parameters,
                                                int64_t index) POSENC_C_NOEXCEPT;
// The rank; the first `capacity` sizes are written. dims may be NULL where capacity is 0.
POSENC_C_API int64_t posenc_parameters_dims(const posenc_parameters* parameters, const char* name,
                                            int64_t* dims, size_t capacity) POSENC_C_NOEXCEPT;
// How many values: the product of the sizes.
POSENC_C_API int64_t posenc_parameters_size(const posenc_parameters* parameters,
                                            const char* name) POSENC_C_NOEXCEPT;
// 1, or 0 for a constant that the formula reads, such as ALiBi's fixed slopes.
POSENC_C_API int64_t posenc_parameters_trainable(const posenc_parameters* parameters,
                                                 const char* name) POSENC_C_NOEXCEPT;

// All values of one parameter; count must be its size. Values that are set must be finite.
POSENC_C_API posenc_status posenc_parameters_get_f64(const posenc_parameters* parameters,
                                                     const char* name, double* values,
                                                     size_t count) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_parameters_get_f32(const posenc_parameters* parameters,
                                                     const char* name, float* values,
                                                     size_t count) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_parameters_set_f64(posenc_parameters* parameters,
                                                     const char* name, const double* values,
                                                     size_t count) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_parameters_set_f32(posenc_parameters* parameters,
                                                     const char* name, const float* values,
                                                     size_t count) POSENC_C_NOEXCEPT;

// Tensors, positions, masks.

enum { POSENC_FLOAT32 = 0, POSENC_BFLOAT16 = 1, POSENC_FLOAT16 = 2 };  // dtype
enum { POSENC_HOST = 0 };                                              // device

// [batch, heads, tokens, channels], whatever the order in memory. Channels are contiguous. Of an
// input the data is only read. All zero: not given.
typedef struct posenc_tensor {
  void* data;
  int32_t dtype;
  int32_t device;
  int64_t shape[4];
  int64_t stride[4];  // in elements
} posenc_tensor;

// A dense row-major tensor.
static inline posenc_tensor posenc_dense(void* data, int32_t dtype, int64_t batch, int64_t heads,
                                         int64_t tokens, int64_t channels) {
  posenc_tensor t = {data,
                     dtype,
                     POSENC_HOST,
                     {batch, heads, tokens, channels},
                     {heads * tokens * channels, tokens * channels, channels, 1}};
  return t;
}

enum {
  POSENC_POSITIONS_DEFAULT = 0,  // token t has position t; data is not read
  POSENC_POSITIONS_OFFSETS = 1,  // int64_t[batch]: sequence b starts there (a decode step, a chunk)
  POSENC_POSITIONS_PACKED = 2,   // int64_t {0, n_1, n_1 + n_2, .., tokens}: each starts at 0 again
  POSENC_POSITIONS_INT32 = 3,    // int32_t ids [batch, tokens, axes] by the strides
  POSENC_POSITIONS_INT64 = 4     // int64_t ids
};

// Positions are in [-2^53, 2^53]. A stride of 0 shares ids along that dimension: one row for all
// sequences, or one coordinate for all axes.
typedef struct posenc_positions {
  int32_t form;
  int32_t reserved;  // 0
  const void* data;
  size_t count;  // elements of data
  int64_t batch_stride;
  int64_t token_stride;
  int64_t axis_stride;
} posenc_positions;

enum { POSENC_CAUSAL = 1, POSENC_WINDOW_LEFT = 2, POSENC_WINDOW_RIGHT = 4 };  // flags, added

// With n the query's place and m the key's (their indices in their sequence, queries aligned with
// the last keys), a query sees a key of its own sequence where all of these hold. All zero: always.
typedef struct posenc_mask {
  int32_t flags;            // POSENC_CAUSAL: m <= n
  int32_t reserved;         // 0
  int64_t window_left;      // with its flag: n - window_left <= m
  int64_t window_right;     // with its flag: m <= n + window_right
  const uint8_t* key_mask;  // [batch, keys], 1, or 0 for padding; or NULL
  size_t key_mask_count;
  const int64_t* cu_queries;  // packed sequences: cumulative lengths {0, n_1, .., Tq}; or NULL
  size_t cu_queries_count;
  const int64_t* cu_keys;  // one of the two may be left out where both are equal
  size_t cu_keys_count;
} posenc_mask;

// Plans.

// A spec made ready for a model: frequencies, tables of cos and sin, the choice of path. Immutable.
typedef struct posenc_plan posenc_plan;

enum { POSENC_CACHE_HYBRID = 0, POSENC_CACHE_PRECOMPUTED = 1, POSENC_CACHE_ON_DEMAND = 2 };

typedef struct posenc_plan_options {
  size_t struct_size;
  posenc_shape shape;
  // Optional from here on.
  int64_t kv_heads;  // divides the heads; 0: as many as heads
  // Of rotations that follow the length (dynamic, longrope, xpos without a center): at least the longest
  // sequence that posenc_attention gets.
  int64_t sequence_length;
  int64_t context_length;   // how long it may get; 0: sequence_length
  int32_t cache_mode;       // what is kept of the tables (posenc/encodings/rotary_cache.h)
  int32_t reserved;         // 0
  int64_t cache_length;     // rows built at once; 0: 2048, -1: none
  int64_t cache_block;      // rows added at a time; 0: 1024
  int64_t cache_max_bytes;  // cap on the memory of a table; 0: 2^30
} posenc_plan_options;

// The spec has encodings of sites 2 to 5 only; those of site 1 go to posenc_add_embeddings.
POSENC_C_API posenc_status posenc_plan_create(const posenc_spec* spec,
                                              const posenc_plan_options* options,
                                              posenc_plan** plan) POSENC_C_NOEXCEPT;
POSENC_C_API void posenc_plan_free(posenc_plan* plan) POSENC_C_NOEXCEPT;
// How many of the spec's encodings are of site 2 (rope, xpos).
POSENC_C_API int64_t posenc_plan_rotary_count(const posenc_plan* plan) POSENC_C_NOEXCEPT;

// Tensors that attention reads for the spec next to q, k and v, in the order of posenc_attention_call::inputs:
// their number, and the name of each ("cope.gate_k", [B, Hkv, Tk, D]; NULL and an error past the last).
POSENC_C_API int64_t posenc_plan_input_count(const posenc_plan* plan) POSENC_C_NOEXCEPT;
POSENC_C_API const char* posenc_plan_input_name(const posenc_plan* plan,
                                                int64_t input) POSENC_C_NOEXCEPT;

// Site 2: rotations.
//
// Below, `rotary` counts the site-2 encodings of the spec from 0, and `parameters` may be NULL unless
// the schedule is learnable. Channels of pair p: {dim_offset + p, dim_offset + p + pairs} (half) or
// {dim_offset + 2p, dim_offset + 2p + 1} (interleaved). Head h of H uses group h * groups / H.

enum { POSENC_HALF = 0, POSENC_INTERLEAVED = 1 };  // layout
enum { POSENC_QUERY = 0, POSENC_KEY = 1 };  // role: xPos scales the two in opposite directions

// Filled up to struct_size, which the caller sets; fields that the library does not know are zero.
typedef struct posenc_rotary_info {
  size_t struct_size;
  int64_t head_dim;
  int64_t rotary_dim;
  int64_t dim_offset;
  int64_t pairs;   // rotary_dim / 2
  int64_t groups;  // of heads, each with its own frequencies
  int64_t axes;    // coordinates of a position
  int32_t layout;
  int32_t inverse;
  double attention_factor;  // multiplies cos and sin
  double softmax_factor;    // multiplies the softmax scale
  // 1: cos and sin change with the plan's lengths. Cache the keys unrotated, and make a plan for each
  // new length; or use posenc_spec_at_length once.
  int32_t follows_length;
  int32_t reserved;
} posenc_rotary_info;

POSENC_C_API posenc_status posenc_rotary_describe(const posenc_plan* plan, int64_t rotary,
                                                  posenc_rotary_info* info) POSENC_C_NOEXCEPT;
// inv_freq[groups][pairs], in radians per position.
POSENC_C_API posenc_status posenc_rotary_frequencies(const posenc_plan* plan,
                                                     const posenc_parameters* parameters,
                                                     int64_t rotary, double* inv_freq,
                                                     size_t count) POSENC_C_NOEXCEPT;
// Rows of cos and sin, magnitude included, at positions first, first + 1, ..: [rows][groups][pairs]
// each, as the kernels read them; count = rows * groups * pairs. Built anew, not from the cache.
POSENC_C_API posenc_status posenc_rotary_table(const posenc_plan* plan,
                                               const posenc_parameters* parameters, int64_t rotary,
                                               int32_t role, int64_t first, int64_t rows,
                                               float* cos, float* sin,
                                               size_t count) POSENC_C_NOEXCEPT;

// y[b, h, t] = T(n[b, t]) x[b, h, t]                                      posenc/kernels/rope.h
typedef struct posenc_rope_call {
  size_t struct_size;
  const posenc_plan* plan;
  posenc_tensor q;
  // Optional from here on.
  posenc_tensor q_out;  // not given: q is turned in place; else q itself, or apart from it
  posenc_tensor k;
  posenc_tensor k_out;  // as q_out
  const posenc_parameters* parameters;
  int64_t rotary;
  posenc_positions positions;
  int32_t transposed;  // 1: the gradient with respect to the input; for unit magnitude the inverse
  int32_t reserved;    // 0
} posenc_rope_call;

POSENC_C_API posenc_status posenc_rope(const posenc_rope_call* call) POSENC_C_NOEXCEPT;

// dinv_freq[groups][pairs], overwritten: the gradient of the frequencies, from the inputs of
// posenc_rope and the gradients at its outputs.
typedef struct posenc_rope_frequency_gradient_call {
  size_t struct_size;
  const posenc_plan* plan;
  posenc_tensor q;
  posenc_tensor dq_out;
  double* dinv_freq;
  size_t dinv_freq_count;
  // Optional from here on.
  posenc_tensor k;
  posenc_tensor dk_out;
  const posenc_parameters* parameters;
  int64_t rotary;
  posenc_positions positions;
} posenc_rope_frequency_gradient_call;

POSENC_C_API posenc_status
posenc_rope_frequency_gradient(const posenc_rope_frequency_gradient_call* call) POSENC_C_NOEXCEPT;

// Attention (posenc/kernels/attention.h).

typedef struct posenc_attention_call {
  size_t struct_size;
  const posenc_plan* plan;
  posenc_tensor q;    // [B, H, Tq, D]
  posenc_tensor k;    // [B, Hkv, Tk, D]
  posenc_tensor v;    // [B, Hkv, Tk, D]
  posenc_tensor out;  // [B, H, Tq, D]
  // Optional from here on.
  const posenc_parameters* parameters;  // of the plan's spec and shape; NULL where it has none
  const posenc_tensor* inputs;          // what the spec reads besides (posenc_plan_input_name)
  size_t input_count;
  float* lse;  // [B, H, Tq]; written, and read by the backward
  size_t lse_count;
  posenc_mask mask;
  posenc_positions q_positions;
  posenc_positions k_positions;
  double scale;         // 0: 1/sqrt(D)
  double dropout_rate;  // in [0, 1)
  uint64_t dropout_seed;
  // 1: the keys went through site 2 before they were cached (posenc_rope does it, once per site-2
  // encoding): decoding. Their gradient is then that of the turned keys. Refused where a rotation
  // follows the length (posenc_rotary_info).
  int32_t keys_are_turned;
  // 1: what no fused kernel serves runs through the float64 reference, which is slow; 0: it is refused
  // (POSENC_UNSUPPORTED). posenc_attention_explain says which path a call takes.
  int32_t allow_reference;
} posenc_attention_call;

POSENC_C_API posenc_status posenc_attention(const posenc_attention_call* call) POSENC_C_NOEXCEPT;

typedef struct posenc_attention_backward_call {
  size_t struct_size;
  const posenc_attention_call* forward;  // as it was called; out and lse hold its results
  posenc_tensor grad_out;                // [B, H, Tq, D]
  posenc_tensor dq;                      // as q, k and v
  posenc_tensor dk;
  posenc_tensor dv;
  // Optional from here on.
  const posenc_tensor* dinputs;  // one per input of the forward
  size_t dinput_count;
  posenc_parameters* dparameters;  // made for the same spec and shape; overwritten
} posenc_attention_backward_call;

POSENC_C_API posenc_status posenc_attention_backward(const posenc_attention_backward_call* call)
    POSENC_C_NOEXCEPT;

// Which path a call takes and why, as snprintf. Of the tensors only the shapes are read.
POSENC_C_API int64_t posenc_attention_explain(const posenc_attention_call* call, char* buffer,
                                              size_t capacity) POSENC_C_NOEXCEPT;

// Linear attention (posenc/kernels/linear_attention.h).

enum { POSENC_ROTATED_NUMERATOR = 0, POSENC_COSINE = 1 };  // form
enum { POSENC_ELU = 0, POSENC_RELU = 1 };                  // feature_map

typedef struct posenc_linear_options {
  int32_t form;
  int32_t feature_map;  // not read by the cosine
  double epsilon;       // of relu, > 0; 0: 1e-3
} posenc_linear_options;

typedef struct posenc_linear_attention_call {
  size_t struct_size;
  const posenc_plan* plan;  // of site-2 encodings alone
  posenc_tensor q;          // shapes as in posenc_attention_call
  posenc_tensor k;
  posenc_tensor v;
  posenc_tensor out;
  // Optional from here on.
  const posenc_parameters* parameters;
  float* denominator;  // [B, H, Tq]; written, and read by the backward
  size_t denominator_count;
  posenc_mask mask;  // without windows
  posenc_positions q_positions;
  posenc_positions k_positions;
  posenc_linear_options options;
} posenc_linear_attention_call;

POSENC_C_API posenc_status posenc_linear_attention(const posenc_linear_attention_call* call)
    POSENC_C_NOEXCEPT;

typedef struct posenc_linear_attention_backward_call {
  size_t struct_size;
  const posenc_linear_attention_call* forward;  // out and denominator hold its results
  posenc_tensor grad_out;
  posenc_tensor dq;
  posenc_tensor dk;
  posenc_tensor dv;
  // Optional from here on.
  posenc_parameters* dparameters;
} posenc_linear_attention_backward_call;

POSENC_C_API posenc_status posenc_linear_attention_backward(
    const posenc_linear_attention_backward_call* call) POSENC_C_NOEXCEPT;

// What a causal sequence has left behind; its size does not depend on the length. Values set in the
// parameters later are seen by later steps.
typedef struct posenc_linear_state posenc_linear_state;

// parameters may be NULL where the spec has none, options for the defaults.
POSENC_C_API posenc_status posenc_linear_state_create(
    const posenc_plan* plan, const posenc_parameters* parameters, int64_t batch,
    const posenc_linear_options* options, posenc_linear_state** state) POSENC_C_NOEXCEPT;
// Branches a sequence.
POSENC_C_API posenc_status posenc_linear_state_copy(const posenc_linear_state* from,
                                                    posenc_linear_state** copy) POSENC_C_NOEXCEPT;
POSENC_C_API void posenc_linear_state_free(posenc_linear_state* state) POSENC_C_NOEXCEPT;

// Any number of tokens, each of which sees those before it and itself. On an error the state is as
// it was.
typedef struct posenc_linear_step {
  size_t struct_size;
  posenc_tensor q;    // [B, H, T, D]
  posenc_tensor k;    // [B, Hkv, T, D]
  posenc_tensor v;    // [B, Hkv, T, D]
  posenc_tensor out;  // [B, H, T, D]
  // Optional from here on.
  posenc_positions positions;  // default: they go on from the tokens so far
} posenc_linear_step;

POSENC_C_API posenc_status posenc_linear_state_step(
    posenc_linear_state* state, const posenc_linear_step* step) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_linear_state_reset(posenc_linear_state* state) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_linear_state_tokens(const posenc_linear_state* state) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_linear_state_bytes(const posenc_linear_state* state) POSENC_C_NOEXCEPT;

// Site 1: embeddings (posenc/kernels/embedding.h).

// y[b, t] = x[b, t] + SUM_a E_a(n[b, t]) over the site-1 encodings of the parameters' spec.
typedef struct posenc_embeddings_call {
  size_t struct_size;
  const posenc_parameters* parameters;  // made with model_dim = the channels of x
  posenc_tensor x;                      // [B, 1, T, model_dim]
  // Optional from here on.
  posenc_tensor y;  // not given: x itself
  posenc_positions positions;
} posenc_embeddings_call;

POSENC_C_API posenc_status posenc_add_embeddings(const posenc_embeddings_call* call)
    POSENC_C_NOEXCEPT;

// dx = dy; rows of a learned table gather dy.
typedef struct posenc_embeddings_gradient_call {
  size_t struct_size;
  const posenc_parameters* parameters;
  posenc_tensor dy;
  posenc_parameters* dparameters;  // made for the same spec and shape; overwritten
  // Optional from here on.
  posenc_positions positions;
} posenc_embeddings_gradient_call;

POSENC_C_API posenc_status
posenc_add_embeddings_gradient(const posenc_embeddings_gradient_call* call) POSENC_C_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // POSENC_POSENC_C_H_
