#include "jax/cuda/rotated.h"

#include <algorithm>

namespace posenc::jax {
namespace {

// The place of each token in its sequence: of queries, or of keys.
std::vector<std::int64_t> places_of(const std::vector<Segment>& segments, std::int64_t tokens,
                                    bool queries) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(tokens), 0);
  for (const Segment& s : segments) {
    const std::int64_t first = queries ? s.first_query : s.first_key;
    const std::int64_t count = queries ? s.queries : s.keys;
    for (std::int64_t t = 0; t < count; ++t) {
      places[first + t] = t + (queries ? s.place_offset() : 0);
    }
  }
  return places;
}

Side uploaded(Device& device, const std::vector<std::int64_t>& places) {
  Side side;
  side.ids = {.ids = device.upload(places), .batch_stride = 0, .token_stride = 1, .axis_stride = 0};
  if (places.empty()) return side;
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  side.least = *least;
  side.most = *most;
  return side;
}

}  // namespace

Rotated::Rotated(Device& device, const AttentionArguments& arguments, bool keys_are_turned,
                 const std::vector<Segment>& segments)
    : q(arguments.q),
      k(arguments.k),
      device_(device),
      arguments_(arguments),
      keys_are_turned_(keys_are_turned) {
  const PreparedSpec& prepared = *arguments.prepared;
  const Terms& terms = prepared.plan.terms();
  if (terms.rotary.empty()) return;
  set_sides(segments);
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    const Encoding& encoding = prepared.spec.encodings[terms.rotary[r]];
    const Parameters& alpha = arguments.parameters.values[terms.rotary[r]];
    rotations_.emplace_back(device,
                            alpha.empty()
                                ? terms.rotations[r]
                                : rotary_of(encoding, prepared.shape, terms.lengths, alpha[0]),
                            std::min(of_q_.least, of_k_.least), std::max(of_q_.most, of_k_.most));
    q_inputs_.push_back(q);
    k_inputs_.push_back(k);
    const TensorView q_out = device.like(q);
    const TensorView k_out = keys_are_turned ? k : device.like(k);
    rotate(rotations_.back(), q, k, q_out, k_out, false);
    q = q_out;
    k = k_out;
  }
}

void Rotated::set_sides(const std::vector<Segment>& segments) {
  const std::int64_t queries = q.tokens();
  const std::int64_t keys = k.tokens();
  of_k_.most = std::max<std::int64_t>(keys - 1, 0);
  of_q_.most = of_k_.most;
  if (!segments.empty()) of_k_ = uploaded(device_, places_of(segments, keys, false));
  if (!segments.empty()) {
    of_q_ = uploaded(device_, places_of(segments, queries, true));
  } else if (queries != keys) {
    std::vector<std::int64_t> places;
    for (std::int64_t t = keys - queries; t < keys; ++t) places.push_back(t);
    of_q_ = uploaded(device_, places);
  }
  if (arguments_.q_positions) of_q_ = side_of(*arguments_.q_positions, q.batch(), queries);
  if (arguments_.k_positions) of_k_ = side_of(*arguments_.k_positions, k.batch(), keys);
}

bool Rotated::together() const {
  return !of_q_.ids.given() && !of_k_.ids.given() && !keys_are_turned_;
}

void Rotated::rotate(const DeviceRotation& rotation, const TensorView& q_in, const TensorView& k_in,
                     const TensorView& q_out, const TensorView& k_out, bool transposed) const {
  if (together()) {
    rotation.rotate(q_in, k_in, q_out, k_out, {}, transposed);
    return;
  }
  rotation.rotate(Role::kQuery, q_in, q_out, of_q_.ids, transposed);
  if (!keys_are_turned_) rotation.rotate(Role::kKey, k_in, k_out, of_k_.ids, transposed);
}

double Rotated::softmax_factor() const {
  double factor = 1.0;
  for (const Rotary& rotary : arguments_.prepared->plan.terms().rotations) {
    factor *= rotary.softmax_factor;
  }
  return factor;
}

void Rotated::backward(const TensorView& dq, const TensorView& dk,
                       std::vector<Parameters>* gradients) const {
  for (std::size_t r = rotations_.size(); r-- > 0;) {
    const std::size_t index = arguments_.prepared->plan.terms().rotary[r];
    if (gradients != nullptr && !(*gradients)[index].empty()) {
      std::vector<double>& sum = (*gradients)[index][0];
      sum = rotations_[r].alpha_gradient(q_inputs_[r], dq, {}, {}, of_q_.ids);
      if (!keys_are_turned_) {
        const auto of_keys = rotations_[r].alpha_gradient(k_inputs_[r], dk, {}, {}, of_k_.ids);
        for (std::size_t p = 0; p < sum.size(); ++p) sum[p] += of_keys[p];
      }
    }
    rotate(rotations_[r], dq, dk, dq, dk, true);
  }
}

}  // namespace posenc::jax
