#include "torch/composed/chain.h"

#include <algorithm>
#include <limits>

namespace posenc::ops {
namespace {

constexpr std::int64_t kPathTile = 64;
constexpr std::int64_t kWallTile = 32;  // whose pairs have a number for each channel

std::int64_t input_of(const ComposedCall& call) {
  const Terms& terms = call.prepared->plan.terms();
  return static_cast<std::int64_t>(first_input(terms.inputs, *terms.chain));
}

// Zeros for the tokens that key_mask hides.
at::Tensor without_hidden(const ComposedCall& call, const at::Tensor& x) {
  const at::Tensor mask = call.tokens->key_mask();
  if (!mask.defined()) return x;
  return at::where(mask.ne(0).reshape({mask.size(0), 1, -1, 1}), x, at::zeros({}, x.options()));
}

// An input of the chain by query head, without the tokens that key_mask hides: zeros are no step.
at::Tensor steps_of(const ComposedCall& call, std::int64_t index, const at::Tensor& like) {
  const at::Tensor x =
      without_hidden(call, call.inputs[static_cast<std::size_t>(input_of(call) + index)]);
  const std::int64_t heads = std::max<std::int64_t>(x.size(1), 1);
  return x.to(like.scalar_type()).repeat_interleave(like.size(1) / heads, 1);
}

// The first query at or after every key, as far as queries are in the order of their tokens.
class FirstQueries {
 public:
  explicit FirstQueries(const ComposedCall& call) : own_(call.tokens->own_keys_on_host()) {
    for (std::size_t i = 1; i < own_.size(); ++i) own_[i] = std::max(own_[i], own_[i - 1]);
  }
  [[nodiscard]] std::int64_t operator()(std::int64_t key) const {
    return std::lower_bound(own_.begin(), own_.end(), key) - own_.begin();
  }

 private:
  std::vector<std::int64_t> own_;
};

// Rows of queries before `first` have no score in a tile.
at::Tensor with_rows_before(const at::Tensor& scores, std::int64_t first) {
  return at::constant_pad_nd(scores, {0, 0, first, 0});
}

// Tokens [B, H, T, D] as tiles [B, H, n, kPathTile, D]; zeros fill the last one, which are no step.
at::Tensor in_tiles(const at::Tensor& x) {
  const std::int64_t tiles = (x.size(2) + kPathTile - 1) / kPathTile;
  const at::Tensor filled = at::constant_pad_nd(x, {0, 0, 0, tiles * kPathTile - x.size(2)});
  return filled.reshape({x.size(0), x.size(1), tiles, kPathTile, x.size(3)});
}

// Coefficients c of the steps of a tile, y past it = y - c W: from the last key to the first,
// c_s = b_s (<w_s, y> - SUM_{t > s} c_t <w_t, w_s>), which is a triangular system. Its inverse does not depend on the
// queries, so that of all tiles is found at once, and a tile has two large products.
at::Tensor path_products(const ComposedCall& call, const at::Tensor& q, const at::Tensor& k) {
  const at::Tensor w = in_tiles(steps_of(call, 0, q));
  const at::Tensor b = in_tiles(steps_of(call, 1, q)).transpose(-1, -2);  // [B, H, n, 1, tile]
  const at::Tensor tiled_k = in_tiles(k);
  const at::Tensor one = at::eye(kPathTile, w.options());
  const at::Tensor system = (at::matmul(w, w.transpose(-1, -2)) * b).tril(-1) + one;
  const at::Tensor inverse =
      at::linalg_solve_triangular(system, one.expand_as(system), false, true, true);
  const at::Tensor later = at::matmul(w, tiled_k.transpose(-1, -2)).tril(-1);
  const at::Tensor met = at::cat({w, tiled_k}, 3).transpose(-1, -2);  // by y: [B, H, n, D, 2 tile]
  const at::Tensor taken = at::matmul(inverse, at::cat({w, later}, -1));  // by c before the inverse
  const std::int64_t keys = k.size(2);
  const std::int64_t tiles = w.size(2);
  const at::Tensor makes_none = at::constant_pad_nd(
      (call.tokens->key_counts(Role::kQuery) > 0).logical_not(), {0, tiles * kPathTile - keys});
  const FirstQueries first_query(call);
  std::int64_t begin = q.size(2);
  at::Tensor y = q.narrow(2, begin, 0);
  std::vector<at::Tensor> scores;
  for (std::int64_t tile = tiles - 1; tile >= 0; --tile) {
    const std::int64_t from = first_query(tile * kPathTile);
    y = at::cat({q.narrow(2, from, begin - from), y}, 2);
    begin = from;
    const std::vector<at::Tensor> along_and_score =
        at::matmul(y, met.select(2, tile)).split(kPathTile, -1);
    const at::Tensor here =
        makes_none.narrow(0, begin, q.size(2) - begin).narrow(1, tile * kPathTile, kPathTile);
    const at::Tensor along = (along_and_score[0] * b.select(2, tile)).masked_fill(here, 0.0);
    const std::vector<at::Tensor> off =
        at::matmul(along, taken.select(2, tile)).split_with_sizes({q.size(3), kPathTile}, -1);
    scores.push_back(with_rows_before(along_and_score[1] - off[1], begin));
    y = y - off[0];
  }
  std::reverse(scores.begin(), scores.end());
  return at::cat(scores, -1).narrow(-1, 0, keys);
}

// Exponents are differences of sums, at most 0: from a query down to the end of a tile and from there to a key, or for
// queries of the tile itself from one to the other.
at::Tensor wall_products(const ComposedCall& call, const at::Tensor& q, const at::Tensor& k) {
  const auto type = q.scalar_type();
  const at::Tensor sums =
      steps_of(call, 0, at::empty({0, q.size(1)}, q.options().dtype(at::kDouble)))
          .clamp_min(kLowestLogGate)
          .cumsum(2);
  const at::Tensor of_query = sums.index_select(2, call.tokens->own_key_index().clamp_min(0));
  const auto gate = [type](const at::Tensor& sum) { return sum.clamp_max(0.0).to(type).exp(); };
  const FirstQueries first_query(call);
  const std::int64_t keys = k.size(2);
  std::vector<at::Tensor> tiles;
  for (std::int64_t first = 0; first < keys; first += kWallTile) {
    const std::int64_t count = std::min(kWallTile, keys - first);
    const std::int64_t own = first_query(first);
    const std::int64_t past = first_query(first + count);
    const std::int64_t rest = q.size(2) - past;
    const at::Tensor tile_k = k.narrow(2, first, count);
    const at::Tensor tile_sums = sums.narrow(2, first, count);
    const at::Tensor end = sums.narrow(2, first + count - 1, 1);
    const at::Tensor pairs =
        of_query.narrow(2, own, past - own).unsqueeze(3) - tile_sums.unsqueeze(2);
    const at::Tensor near =
        (q.narrow(2, own, past - own).unsqueeze(3) * tile_k.unsqueeze(2) * gate(pairs)).sum(-1);
    const at::Tensor far_q = q.narrow(2, past, rest) * gate(of_query.narrow(2, past, rest) - end);
    const at::Tensor far_k = tile_k * gate(end - tile_sums);
    const at::Tensor far = at::matmul(far_q, far_k.transpose(-1, -2));
    tiles.push_back(with_rows_before(at::cat({near, far}, 2), own));
  }
  return at::cat(tiles, -1);
}

}  // namespace

at::Tensor chained_products(const ComposedCall& call, const at::Tensor& q, const at::Tensor& k) {
  if (k.size(2) == 0) return at::matmul(q, k.transpose(-1, -2));
  const Terms& terms = call.prepared->plan.terms();
  const bool path = terms.config<Path>(terms.chain) != nullptr;
  return path ? path_products(call, q, k) : wall_products(call, q, k);
}

void check_gates(const ComposedCall& call) {
  const Terms& terms = call.prepared->plan.terms();
  const auto* wall = terms.config<Wall>(terms.chain);
  if (wall == nullptr) return;
  const auto input = static_cast<std::size_t>(input_of(call));
  const at::Tensor gates = without_hidden(call, call.inputs[input]).detach();
  // The largest of numbers with a NaN is NaN.
  if (gates.numel() == 0 || is_log_gate(gates.max().item<double>())) return;
  const at::Tensor wrong = gates.le(0.0).logical_not().nonzero()[0].to(at::kCPU);
  const auto at = wrong.accessor<std::int64_t, 1>();
  const at::Tensor row = gates.select(0, at[0]).select(0, at[1]).select(0, at[2]);
  refuse_gate(terms.inputs[input].info, row.select(0, at[3]).item<double>(), {at[0], at[1], at[2]});
}

}  // namespace posenc::ops
