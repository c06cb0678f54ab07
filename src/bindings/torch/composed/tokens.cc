#include "torch/composed/tokens.h"

namespace posenc::ops {
Tokens::Tokens(const char* op, const at::Tensor& q, const at::Tensor& k,
               const TokenOptions& options)
    : op_(op),
      options_(options),
      device_(q.device()),
      batch_(q.size(0)),
      queries_(q.size(2)),
      keys_(k.size(2)),
      cu_queries_(lengths_of(op, "cu_queries", options.cu_queries)),
      cu_keys_(lengths_of(op, "cu_keys", options.cu_keys)),
      q_given_(positions_on(device_, op, "q_positions", options.q_positions, batch_, queries_)),
      k_given_(positions_on(device_, op, "k_positions", options.k_positions, batch_, keys_)),
      key_mask_(key_mask_on(device_, op, options.key_mask, k)) {}

void Tokens::check_axes(std::int64_t axes) const {
  ops::check_axes(op_, "q_positions", q_given_, axes);
  ops::check_axes(op_, "k_positions", k_given_, axes);
}

void Tokens::check_same_axes() const {
  if (!q_given_.defined() || !k_given_.defined()) return;
  TORCH_CHECK(
      q_given_.size(2) == k_given_.size(2), "[", op_,
      "] relative_2d needs as many coordinates of queries as of keys, but q_positions have ",
      q_given_.size(2), " and k_positions ", k_given_.size(2), "; give both as [B, T, 2]");
}

AttentionMask Tokens::mask() const {
  AttentionMask mask;
  mask.causal = options_.causal;
  mask.window_left = options_.window_left;
  mask.window_right = options_.window_right;
  if (key_mask_.defined()) mask.key_mask = key_mask_.data_ptr<std::uint8_t>();
  mask.cu_queries = cu_queries_;
  mask.cu_keys = cu_keys_;
  return mask;
}

Tokens::Side Tokens::side_of(bool queries) const {
  const auto& q = cu_queries_.empty() ? cu_keys_ : cu_queries_;
  const auto& k = cu_keys_.empty() ? cu_queries_ : cu_keys_;
  const auto& mine = queries ? q : k;
  Side side;
  for (std::size_t s = 0; s + 1 < mine.size(); ++s) {
    const std::int64_t shift = queries ? (k[s + 1] - k[s]) - (q[s + 1] - q[s]) : 0;
    for (std::int64_t t = mine[s]; t < mine[s + 1]; ++t) {
      side.place.push_back(t - mine[s] + shift);
      side.sequence.push_back(static_cast<std::int64_t>(s));
    }
  }
  return side;
}

at::Tensor Tokens::on_device(const std::vector<std::int64_t>& values) const {
  return at::tensor(values, at::kLong).to(device_);
}

at::Tensor Tokens::q_places() const {
  if (packed()) return on_device(side_of(true).place);
  return at::arange(keys_ - queries_, keys_, at::TensorOptions(device_).dtype(at::kLong));
}

at::Tensor Tokens::k_places() const {
  if (packed()) return on_device(side_of(false).place);
  return at::arange(keys_, at::TensorOptions(device_).dtype(at::kLong));
}

at::Tensor Tokens::q_positions() const {
  if (q_given_.defined()) return q_given_;
  at::Tensor places = q_places().reshape({1, -1, 1});
  if (!options_.lengths.defined()) return places;
  return places + (options_.lengths.reshape({-1, 1, 1}) - keys_);
}
at::Tensor Tokens::k_positions() const {
  return k_given_.defined() ? k_given_ : k_places().reshape({1, -1, 1});
}

// Of queries or keys with keys; packed sequences only.
at::Tensor Tokens::same_sequence(bool queries) const {
  return on_device(side_of(queries).sequence).unsqueeze(1) ==
         on_device(side_of(false).sequence).unsqueeze(0);
}

at::Tensor Tokens::key_counts(Role role) const {
  const bool queries = role == Role::kQuery;
  at::Tensor counts = (queries ? q_places() : k_places()).unsqueeze(1) >= k_places().unsqueeze(0);
  if (packed()) counts = counts & same_sequence(queries);
  return counts.to(at::kDouble);
}

at::Tensor Tokens::own_keys() const {
  at::Tensor own = q_places().unsqueeze(1) == k_places().unsqueeze(0);
  if (packed()) own = own & same_sequence(true);
  return own.to(at::kDouble);
}

at::Tensor Tokens::first_of_sequence() const {
  return at::arange(keys_, at::TensorOptions(device_).dtype(at::kLong)) - k_places();
}

std::vector<std::int64_t> Tokens::own_keys_on_host() const {
  std::vector<std::int64_t> index;
  if (!packed()) {
    for (std::int64_t t = 0; t < queries_; ++t) {
      index.push_back(std::max<std::int64_t>(t + keys_ - queries_, -1));
    }
    return index;
  }
  const auto& k = cu_keys_.empty() ? cu_queries_ : cu_keys_;
  const Side side = side_of(true);
  for (std::size_t t = 0; t < side.place.size(); ++t) {
    index.push_back(side.place[t] < 0 ? -1 : k[side.sequence[t]] + side.place[t]);
  }
  return index;
}

at::Tensor Tokens::own_key_index() const { return on_device(own_keys_on_host()); }

at::Tensor Tokens::visible() const {
  const at::Tensor n = q_places().unsqueeze(1);
  const at::Tensor m = k_places().unsqueeze(0);
  const at::Tensor apart = n - m;
  at::Tensor sees = at::ones_like(apart, at::kBool);
  if (options_.causal) sees = sees & (apart >= 0);
  if (options_.window_left >= 0) sees = sees & (apart <= options_.window_left);
  if (options_.window_right >= 0) sees = sees & (-apart <= options_.window_right);
  if (packed()) sees = sees & same_sequence(true);
  sees = sees.reshape({1, 1, queries_, keys_});
  if (key_mask_.defined()) sees = sees & key_mask_.ne(0).reshape({batch_, 1, 1, keys_});
  return sees;
}

SidePositions Tokens::side(Role role) const {
  const bool queries = role == Role::kQuery;
  const at::Tensor& given = queries ? q_given_ : k_given_;
  SidePositions side;
  if (given.defined()) {
    side.ids = given;
    if (given.numel() == 0) return side;
    const OptionalTensor& original = queries ? options_.q_positions : options_.k_positions;
    const PositionRange range = range_of(op_, queries ? "q_positions" : "k_positions", *original);
    side.least = range.least;
    side.most = range.most;
    return side;
  }
  const std::int64_t tokens = queries ? queries_ : keys_;
  if (queries && options_.lengths.defined()) {
    return {q_positions(), -queries_, std::max<std::int64_t>(keys_ - 1, 0)};
  }
  if (packed()) {
    const Side places = side_of(queries);
    side.ids = on_device(places.place).reshape({1, tokens, 1}).expand({batch_, tokens, 1});
    for (const std::int64_t n : places.place) {
      side.least = std::min(side.least, n);
      side.most = std::max(side.most, n);
    }
    return side;
  }
  if (queries && queries_ != keys_) {
    side.ids = q_places().reshape({1, tokens, 1}).expand({batch_, tokens, 1});
  }
  side.least = queries ? std::min<std::int64_t>(keys_ - queries_, 0) : 0;
  side.most = std::max<std::int64_t>(keys_ - 1, 0);
  return side;
}

}  // namespace posenc::ops
