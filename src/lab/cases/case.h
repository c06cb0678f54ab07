// One row of the case table: an operation, an encoding, a shape, a type, masks and positions. Tests compare it
// with the float64 reference and its gradients with finite differences; benchmarks time it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/tensor.h"
#include "posenc/core/fields.h"
#include "posenc/kernels/linear_attention.h"

namespace posenc::cases {

enum class Operation { kRope, kAttention, kDecode, kLinearAttention, kEmbedding };
constexpr std::array<std::string_view, 5> enum_names(Operation /*tag*/) {
  return {"rope", "attention", "decode", "linear_attention", "embedding"};
}
inline std::string_view operation_name(Operation op) { return enum_name(op); }

enum class PositionForm { kPlaces, kOffsets, kIds64, kIds32, kPacked };

struct Case {
  Operation op = Operation::kAttention;
  std::string spec = "none";
  std::int64_t batch = 1;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 2;
  std::int64_t queries = 70;  // tokens, where there are no keys
  std::int64_t keys = 70;
  std::int64_t head_dim = 16;  // width of an embedding, for site 1
  std::int64_t value_dim = 0;  // channels of values; 0: head_dim
  DType dtype = DType::kFloat32;
  std::optional<DType> cache_dtype = {};  // of keys, values and inputs; default: dtype. No backward
  Order order = Order::kDense;
  std::int64_t page = 0;  // tokens of a page of the cache (paged_cache.h); 0: no pages. No backward

  bool causal = true;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  bool padding = false;
  std::vector<std::int64_t> cumulative = {};
  std::vector<std::int64_t> cumulative_keys = {};
  double dropout = 0.0;

  PositionForm positions = PositionForm::kPlaces;
  std::int64_t offset = 0;   // of positions given as offsets
  double gate_shift = 0.0;   // added to the keys: CoPE's gates open or close
  double query_shift = 0.0;  // added to the queries
  bool in_place = false;     // rope
  CachePolicy policy = {};   // of the tables of cos and sin
  LinearAttentionOptions linear = {};
  std::uint64_t seed = 11;

  [[nodiscard]] std::int64_t value_width() const { return value_dim == 0 ? head_dim : value_dim; }
};

// A rotation in place has lost its input; gradients need one type and no pages.
inline bool has_backward(const Case& c) { return !c.in_place && !c.cache_dtype && c.page == 0; }

// "attention rope + alibi B1 H2/2 T70x70 D16 float32 causal": what tells rows apart.
std::string name_of(const Case& c);

}  // namespace posenc::cases
