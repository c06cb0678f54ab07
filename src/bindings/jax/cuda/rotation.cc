#include "jax/cuda/rotation.h"

#include "posenc/encodings/rotary_cache.h"
#include "posenc/kernels/ref/rope.h"

namespace posenc::jax {

Side side_of(const Positions& positions, std::int64_t batch, std::int64_t tokens) {
  Side side;
  side.ids = positions.view;
  if (batch == 0 || tokens == 0) return side;
  const auto range = positions.host.range(batch, tokens, positions.axes);
  side.least = range.least;
  side.most = range.most;
  return side;
}

DeviceRotation::DeviceRotation(Device& device, const Rotary& rotary, std::int64_t least,
                               std::int64_t most)
    : device_(device), rotary_(rotary) {
  tables_.first = least;
  tables_.rows = most - least + 1;
  const std::int64_t bytes = cuda::rotary_row_floats(rotary_) * 4;
  const std::int64_t room = static_cast<std::int64_t>(CachePolicy{}.max_bytes) / bytes;
  if (tables_.rows > room) {
    refuse("cache", "max_bytes", "has no room for the rows of these positions",
           std::to_string(tables_.rows) + " rows of " + std::to_string(bytes) + " bytes");
  }
  const double* constants = device_.upload(cuda::rotary_constants(rotary_));
  tables_.query = filled(Role::kQuery, constants);
  tables_.key = rotary_.log_zeta.empty() ? tables_.query : filled(Role::kKey, constants);
}

const float* DeviceRotation::filled(Role role, const double* constants) const {
  cuda::RotaryTableFill fill;
  fill.rotary = &rotary_;
  fill.role = role;
  fill.constants = constants;
  fill.first = tables_.first;
  fill.rows = tables_.rows;
  fill.table = device_.make<float>(fill.rows * cuda::rotary_row_floats(rotary_));
  cuda::fill_rotary_table(fill, device_.stream()).throw_if_error();
  return fill.table;
}

void DeviceRotation::rotate(const TensorView& q, const TensorView& k, const TensorView& q_out,
                            const TensorView& k_out, const PositionsView& ids,
                            bool transposed) const {
  cuda::RopeCall call;
  call.q = q;
  call.q_out = q_out;
  if (!k.empty()) {
    call.k = k;
    call.k_out = k_out;
  }
  call.rotary = &rotary_;
  call.tables = tables_;
  call.positions = ids;
  call.transposed = transposed;
  cuda::rope(call, device_.stream()).throw_if_error();
}

void DeviceRotation::rotate(Role role, const TensorView& x, const TensorView& out,
                            const PositionsView& ids, bool transposed) const {
  cuda::RopeCall call;
  call.q = x;
  call.q_out = out;
  call.rotary = &rotary_;
  call.tables = tables_;
  if (role == Role::kKey) call.tables.query = tables_.key;
  call.positions = ids;
  call.transposed = transposed;
  cuda::rope(call, device_.stream()).throw_if_error();
}

std::vector<double> DeviceRotation::alpha_gradient(const TensorView& q, const TensorView& dq,
                                                   const TensorView& k, const TensorView& dk,
                                                   const PositionsView& ids) const {
  cuda::RopeFrequencyGradientCall call;
  call.q = q;
  call.dq_out = dq;
  if (!k.empty()) {
    call.k = k;
    call.dk_out = dk;
  }
  call.rotary = &rotary_;
  call.tables = tables_;
  call.positions = ids;
  call.workspace = device_.bytes(cuda::frequency_gradient_bytes(call));
  const std::int64_t count = rotary_.groups() * rotary_.pairs();
  call.dinv_freq = device_.make<double>(count);
  cuda::rope_frequency_gradient(call, device_.stream()).throw_if_error();
  return ref::alpha_gradient(rotary_, device_.download(call.dinv_freq, count));
}

}  // namespace posenc::jax
