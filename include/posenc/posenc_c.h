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
// A spec is a list of encodings, written as text, JSON or YAML (posenc/encodings/spec.h). The C++
// headers named below define each operation; results are bitwise identical to those of C++.
//
// Errors.  Every function that can fail returns a status: POSENC_OK or a negative code. Functions
//   that return a count return a negative code on error. posenc_last_error() then returns one line
//   with the argument, the rule it breaks and its value. Arguments are checked before anything is
//   written: on error no output is modified. The library never prints and never throws.
// Ownership.  The caller owns what a *_create, *_copy or posenc_spec_from_* function returns and
//   frees it with the matching *_free, which accepts NULL. Handles may be freed in any order: each
//   keeps alive what it depends on. Tensors and arrays are borrowed for the duration of the call.
// Threads.  Handles may be used from any thread. A handle that is being modified
//   (posenc_parameters_set_*, an output gradient, posenc_linear_state_step) must not be used by
//   another thread at the same time. Results are bitwise identical for any number of threads.
// ABI.  A struct that starts with struct_size may get more fields at its end. Set struct_size to its
//   sizeof and unused fields to zero, which always means the default:
//       posenc_rope_call call = {.struct_size = sizeof call};
//   A program compiled against an older or newer header works with this library as long as the
//   fields unknown to the library are zero. Structs without struct_size never change.
//   POSENC_ABI_VERSION, also the version of the shared library, changes with incompatible changes.
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
  POSENC_UNSUPPORTED = -3,       // an unsupported combination, or a field of a newer header
  POSENC_RESOURCE_EXHAUSTED = -4,  // out of memory, or a memory limit was reached
  POSENC_BAD_SPEC = -5,            // invalid spec: syntax, an unknown or missing key, a wrong type
  POSENC_INTERNAL = -6             // a bug in the library; please report it
};

// "ok", "invalid_argument", ...; "unknown" for other numbers.
POSENC_C_API const char* posenc_status_name(posenc_status status) POSENC_C_NOEXCEPT;
// The message of the last error on this thread, "" if there was none. Valid until the next call on
// this thread that fails; calls that succeed do not change it.
POSENC_C_API const char* posenc_last_error(void) POSENC_C_NOEXCEPT;

// Library version and threads.

// The versions of the loaded library. POSENC_VERSION_STRING and POSENC_ABI_VERSION are the header's.
POSENC_C_API const char* posenc_version(void) POSENC_C_NOEXCEPT;
POSENC_C_API uint32_t posenc_abi_version(void) POSENC_C_NOEXCEPT;

// The number of threads the kernels use, at most 4096. Below 1: one per core.
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
// A copy of the spec whose length-dependent rotations (dynamic, longrope, xpos without a center) are
// fixed at this length (posenc/encodings/length.h).
POSENC_C_API posenc_status posenc_spec_at_length(const posenc_spec* spec, int64_t length,
                                                 posenc_spec** fixed) POSENC_C_NOEXCEPT;

// Like snprintf: writes at most capacity - 1 characters and a terminating 0, and returns the full
// length without the 0. buffer may be NULL if capacity is 0. The hash has 16 hexadecimal digits and
// is the same for the text, JSON and YAML forms of a spec.
POSENC_C_API int64_t posenc_spec_to_text(const posenc_spec* spec, char* buffer,
                                         size_t capacity) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_spec_to_json(const posenc_spec* spec, char* buffer,
                                         size_t capacity) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_spec_to_yaml(const posenc_spec* spec, char* buffer,
                                         size_t capacity) POSENC_C_NOEXCEPT;
POSENC_C_API int64_t posenc_spec_hash(const posenc_spec* spec, char* buffer,
                                      size_t capacity) POSENC_C_NOEXCEPT;

// The slopes of the first alibi in the spec, one per head (posenc/encodings/alibi.h).
POSENC_C_API posenc_status posenc_alibi_slopes(const posenc_spec* spec, int64_t heads,
                                               double* slopes, size_t count) POSENC_C_NOEXCEPT;
// The bucket of the first t5 in the spec for a key at relative = key position - query position
// (posenc/encodings/t5.h).
POSENC_C_API int64_t posenc_t5_bucket(const posenc_spec* spec, int64_t relative) POSENC_C_NOEXCEPT;

// Parameters.

// The dimensions of a model that encodings depend on. Sizes are at most 2^24.
typedef struct posenc_shape {
  int64_t head_dim;
  int64_t heads;
  int64_t model_dim;  // 0: heads * head_dim
} posenc_shape;

// Values of all parameters of a spec, or gradients with respect to them: float64, row-major, each
// under a stable name ("alibi.slopes", "cope.pos_emb", "alibi_2.slopes").
typedef struct posenc_parameters posenc_parameters;

// Parameters with their initial values. Random values are a function of the seed.
POSENC_C_API posenc_status
posenc_parameters_create(const posenc_spec* spec, const posenc_shape* shape, uint64_t seed,
                         posenc_parameters** parameters) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_parameters_copy(const posenc_parameters* from,
                                                  posenc_parameters** copy) POSENC_C_NOEXCEPT;
POSENC_C_API void posenc_parameters_free(posenc_parameters* parameters) POSENC_C_NOEXCEPT;

POSENC_C_API int64_t posenc_parameters_count(const posenc_parameters* parameters) POSENC_C_NOEXCEPT;
// The index of a name, counted from 0.
POSENC_C_API int64_t posenc_parameters_find(const posenc_parameters* parameters,
                                            const char* name) POSENC_C_NOEXCEPT;
// The name at an index, valid as long as the handle; NULL on error.
POSENC_C_API const char* posenc_parameters_name(const posenc_parameters* parameters,
                                                int64_t index) POSENC_C_NOEXCEPT;
// Returns the rank and writes the first `capacity` sizes. dims may be NULL if capacity is 0.
POSENC_C_API int64_t posenc_parameters_dims(const posenc_parameters* parameters, const char* name,
                                            int64_t* dims, size_t capacity) POSENC_C_NOEXCEPT;
// The number of values: the product of the sizes.
POSENC_C_API int64_t posenc_parameters_size(const posenc_parameters* parameters,
                                            const char* name) POSENC_C_NOEXCEPT;
// 1, or 0 for a constant that the formula reads, such as ALiBi's fixed slopes.
POSENC_C_API int64_t posenc_parameters_trainable(const posenc_parameters* parameters,
                                                 const char* name) POSENC_C_NOEXCEPT;

// Reads or writes all values of a parameter. count must be its size; written values must be finite.
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

// dtype. int8 is for the cache of a decode step (posenc_attention_call.k_scales).
enum { POSENC_FLOAT32 = 0, POSENC_BFLOAT16 = 1, POSENC_FLOAT16 = 2, POSENC_INT8 = 3 };
enum { POSENC_HOST = 0 };  // device

// Shape [batch, heads, tokens, channels] with any strides; channels must be contiguous. The data of
// inputs is only read. All zero: not given.
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
  POSENC_POSITIONS_OFFSETS = 1,  // int64_t[batch]: first position per sequence (decoding, chunks)
  POSENC_POSITIONS_PACKED = 2,   // int64_t {0, n_1, n_1 + n_2, .., tokens}: each sequence from 0
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

// Let n and m be the indices of a query and a key in their sequence, with the last query aligned to
// the last key. A query attends to a key of its sequence if all conditions hold. All zero: no mask.
typedef struct posenc_mask {
  int32_t flags;            // POSENC_CAUSAL: m <= n
  int32_t reserved;         // 0
  int64_t window_left;      // with its flag: n - window_left <= m
  int64_t window_right;     // with its flag: m <= n + window_right
  const uint8_t* key_mask;  // [batch, keys], 1, or 0 for padding; or NULL
  size_t key_mask_count;
  const int64_t* cu_queries;  // packed sequences: cumulative lengths {0, n_1, .., Tq}; or NULL
  size_t cu_queries_count;
  const int64_t* cu_keys;  // may be NULL if equal to cu_queries, and the other way round
  size_t cu_keys_count;
} posenc_mask;

// Plans.

// A spec prepared for a model shape: frequencies, cos/sin tables, kernel selection. Immutable.
typedef struct posenc_plan posenc_plan;

enum { POSENC_CACHE_HYBRID = 0, POSENC_CACHE_PRECOMPUTED = 1, POSENC_CACHE_ON_DEMAND = 2 };

typedef struct posenc_plan_options {
  size_t struct_size;
  posenc_shape shape;
  // Optional from here on.
  int64_t kv_heads;  // divides the heads; 0: as many as heads
  // For length-dependent rotations (dynamic, longrope, xpos without a center): at least the longest
  // sequence passed to posenc_attention.
  int64_t sequence_length;
  int64_t context_length;   // the maximum length; 0: sequence_length
  int32_t cache_mode;       // which table rows are kept (posenc/encodings/rotary_cache.h)
  int32_t reserved;         // 0
  int64_t cache_length;     // rows built up front; 0: 2048, -1: none
  int64_t cache_block;      // rows added at a time; 0: 1024
  int64_t cache_max_bytes;  // limit on the memory of a table; 0: 2^30
} posenc_plan_options;

// The spec may contain encodings of sites 2 to 5; for site 1 use posenc_add_embeddings.
POSENC_C_API posenc_status posenc_plan_create(const posenc_spec* spec,
                                              const posenc_plan_options* options,
                                              posenc_plan** plan) POSENC_C_NOEXCEPT;
POSENC_C_API void posenc_plan_free(posenc_plan* plan) POSENC_C_NOEXCEPT;
// The number of site-2 encodings (rope, xpos) in the spec.
POSENC_C_API int64_t posenc_plan_rotary_count(const posenc_plan* plan) POSENC_C_NOEXCEPT;

// Tensors that the spec needs in addition to q, k and v, in the order of posenc_attention_call::inputs:
// their number, and the name of each, such as "cope.gate_k". NULL and an error for an invalid index.
POSENC_C_API int64_t posenc_plan_input_count(const posenc_plan* plan) POSENC_C_NOEXCEPT;
POSENC_C_API const char* posenc_plan_input_name(const posenc_plan* plan,
                                                int64_t input) POSENC_C_NOEXCEPT;

// Site 2: rotations.
//
// `rotary` is the index of a site-2 encoding in the spec, from 0. `parameters` may be NULL unless the
// schedule is learnable. Pair p is channels {dim_offset + p, dim_offset + p + pairs} (half) or
// {dim_offset + 2p, dim_offset + 2p + 1} (interleaved). Head h of H uses group h * groups / H.

enum { POSENC_HALF = 0, POSENC_INTERLEAVED = 1 };  // layout
enum { POSENC_QUERY = 0, POSENC_KEY = 1 };  // role: xPos scales the two in opposite directions

// The caller sets struct_size; fields are filled up to it. Fields unknown to the library are zero.
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
  // 1: cos and sin depend on the plan's lengths. Cache keys before rotation and create a plan for each
  // new length, or fix the spec once with posenc_spec_at_length.
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
// Rows of cos and sin (including the magnitude) at positions first, first + 1, ..: each is
// [rows][groups][pairs] and count = rows * groups * pairs. Computed by the call, not read from the cache.
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
  posenc_tensor q_out;  // not given: q is rotated in place; must not overlap q partially
  posenc_tensor k;
  posenc_tensor k_out;  // like q_out
  const posenc_parameters* parameters;
  int64_t rotary;
  posenc_positions positions;
  int32_t transposed;  // 1: the gradient with respect to the input; for unit magnitude the inverse
  int32_t reserved;    // 0
} posenc_rope_call;

POSENC_C_API posenc_status posenc_rope(const posenc_rope_call* call) POSENC_C_NOEXCEPT;

// Overwrites dinv_freq[groups][pairs] with the gradient of the frequencies. q and k are the inputs of
// posenc_rope, dq_out and dk_out the gradients of its outputs.
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

// A paged cache (posenc/kernels/block_table.h): token t of batch entry b is row t % page of page
// pages[b * stride + t / page]. k, v, their scales and the inputs are then pools [pages, heads, page, channels] with the
// same pages, and Tk of mask and positions is the longest of the lengths. All zero: no table.
typedef struct posenc_block_table {
  const int32_t* pages;    // [batch, blocks]; entries past a length are not read
  size_t pages_count;      // elements of pages
  int64_t blocks;          // entries of a row of the table
  int64_t stride;          // from row to row; 0: blocks
  int64_t page;            // tokens of a page: the third dimension of the pools
  const int64_t* lengths;  // [batch]: tokens of each sequence
  size_t lengths_count;
} posenc_block_table;

typedef struct posenc_attention_call {
  size_t struct_size;
  const posenc_plan* plan;
  posenc_tensor q;  // [B, H, Tq, D]
  posenc_tensor
      k;  // [B, Hkv, Tk, D]; without a backward k, v and inputs may have another type than q
  posenc_tensor v;    // [B, Hkv, Tk, Dv]; Dv may be D, less or more
  posenc_tensor out;  // [B, H, Tq, Dv]
  // Optional from here on.
  const posenc_parameters* parameters;  // for the plan's spec and shape; NULL if it has none
  const posenc_tensor* inputs;          // the spec's extra inputs (posenc_plan_input_name)
  size_t input_count;
  float* lse;  // [B, H, Tq]; written, and read by the backward
  size_t lse_count;
  posenc_mask mask;
  posenc_positions q_positions;
  posenc_positions k_positions;
  double scale;         // 0: 1/sqrt(D)
  double dropout_rate;  // in [0, 1)
  uint64_t dropout_seed;
  // 1: k is already rotated, as in a cache that posenc_rope filled (one call per site-2 encoding). dk is
  // then the gradient of the rotated keys. An error for length-dependent rotations (posenc_rotary_info).
  int32_t keys_are_turned;
  // 1: a call that no fused kernel supports runs the slow float64 reference; 0: it fails with
  // POSENC_UNSUPPORTED. posenc_attention_explain tells which path a call takes.
  int32_t allow_reference;
  // float32 [B, Hkv, Tk, 1], where k or v is int8: channels are read as scale * int8. Decode steps alone read
  // int8: up to eight queries, no packed sequences.
  posenc_tensor k_scales;
  posenc_tensor v_scales;
  // Forward calls alone read a paged cache, without dropout and packed sequences.
  posenc_block_table block_table;
} posenc_attention_call;

POSENC_C_API posenc_status posenc_attention(const posenc_attention_call* call) POSENC_C_NOEXCEPT;

// Rows x [B, H, T, C] to int8 rows and float32 scales [B, H, T, 1], and back (posenc/kernels/quantize.h).
POSENC_C_API posenc_status posenc_quantize_rows(const posenc_tensor* x,
                                                const posenc_tensor* quantized,
                                                const posenc_tensor* scales) POSENC_C_NOEXCEPT;
POSENC_C_API posenc_status posenc_dequantize_rows(const posenc_tensor* quantized,
                                                  const posenc_tensor* scales,
                                                  const posenc_tensor* x) POSENC_C_NOEXCEPT;

typedef struct posenc_attention_backward_call {
  size_t struct_size;
  const posenc_attention_call* forward;  // the forward call; out and lse hold its results
  posenc_tensor grad_out;                // [B, H, Tq, Dv]
  posenc_tensor dq;                      // shapes of q, k and v
  posenc_tensor dk;
  posenc_tensor dv;
  // Optional from here on.
  const posenc_tensor* dinputs;  // one per input of the forward
  size_t dinput_count;
  posenc_parameters* dparameters;  // made for the same spec and shape; overwritten
} posenc_attention_backward_call;

POSENC_C_API posenc_status posenc_attention_backward(const posenc_attention_backward_call* call)
    POSENC_C_NOEXCEPT;

// Writes which path a call takes and why, like snprintf. Only the shapes of the tensors are read.
POSENC_C_API int64_t posenc_attention_explain(const posenc_attention_call* call, char* buffer,
                                              size_t capacity) POSENC_C_NOEXCEPT;

// Linear attention (posenc/kernels/linear_attention.h).

enum { POSENC_ROTATED_NUMERATOR = 0, POSENC_COSINE = 1 };  // form
enum { POSENC_ELU = 0, POSENC_RELU = 1 };                  // feature_map

typedef struct posenc_linear_options {
  int32_t form;
  int32_t feature_map;  // ignored by POSENC_COSINE
  double epsilon;       // for POSENC_RELU, > 0; 0: 1e-3
} posenc_linear_options;

typedef struct posenc_linear_attention_call {
  size_t struct_size;
  const posenc_plan* plan;  // site-2 encodings only
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

// The recurrent state of causal linear attention; its size does not depend on the length. Later steps
// use parameter values that were set in the meantime.
typedef struct posenc_linear_state posenc_linear_state;

// parameters may be NULL if the spec has none; options may be NULL for the defaults.
POSENC_C_API posenc_status posenc_linear_state_create(
    const posenc_plan* plan, const posenc_parameters* parameters, int64_t batch,
    const posenc_linear_options* options, posenc_linear_state** state) POSENC_C_NOEXCEPT;
// Copies a state, for example to branch a sequence.
POSENC_C_API posenc_status posenc_linear_state_copy(const posenc_linear_state* from,
                                                    posenc_linear_state** copy) POSENC_C_NOEXCEPT;
POSENC_C_API void posenc_linear_state_free(posenc_linear_state* state) POSENC_C_NOEXCEPT;

// Processes any number of tokens, causally. On error the state does not change.
typedef struct posenc_linear_step {
  size_t struct_size;
  posenc_tensor q;    // [B, H, T, D]
  posenc_tensor k;    // [B, Hkv, T, D]
  posenc_tensor v;    // [B, Hkv, T, D]
  posenc_tensor out;  // [B, H, T, D]
  // Optional from here on.
  posenc_positions positions;  // default: continue after the tokens so far
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

// dx = dy. The gradient of a learned table accumulates dy per row.
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

// SPDX-License-Identifier: MIT
