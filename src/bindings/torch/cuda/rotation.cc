#include "torch/cuda/rotation.h"

#include "torch/cuda/stream.h"

namespace posenc::ops {
namespace {

PositionsView view_of_ids(const at::Tensor& ids) {
  PositionsView view;
  if (!ids.defined() || ids.numel() == 0) return view;
  view.ids = ids.data_ptr<std::int64_t>();
  view.batch_stride = ids.stride(0);
  view.token_stride = ids.stride(1);
  view.axis_stride = ids.size(2) > 1 ? ids.stride(2) : 0;
  return view;
}

ConstTensorView view_or_none(const at::Tensor& x) {
  if (!x.defined() || x.numel() == 0) return {};
  return view_of(x);
}

// At least what the plan keeps on the host, then in doublings, so that a growing sequence seldom
// fills a new table.
DeviceTable grown(const DeviceTable& known, const PositionRange& range, const CachePolicy& policy) {
  DeviceTable wanted;
  wanted.first = std::min<std::int64_t>({range.least, known.first, 0});
  const std::int64_t end = std::max(range.most + 1, known.first + known.rows);
  std::int64_t rows = std::max<std::int64_t>(policy.length, 64);
  while (rows < end) rows *= 2;
  wanted.rows = rows - wanted.first;
  return wanted;
}

void check_room(const Rotary& rotary, std::int64_t rows, const CachePolicy& policy) {
  const std::int64_t bytes = cuda::rotary_row_floats(rotary) * 4;
  TORCH_CHECK(rows <= policy.max_bytes / bytes, "[cache] max_bytes (", policy.max_bytes,
              ") has no room for ", rows, " rows of ", bytes,
              " bytes on the device; give positions that are closer together");
}

}  // namespace

CudaRotation::CudaRotation(const Prepared& prepared, std::size_t rotation, const at::Tensor& alpha,
                           const PositionRange& range, const at::Device& device)
    : rotary_(prepared.plan.terms().rotations[rotation]), device_(device) {
  const CachePolicy policy;  // the default, as in Prepared
  const DeviceTables::Key key{rotation, device.index(), current_stream(device)};
  const bool trained = alpha.defined();
  if (!trained) {
    table_ = prepared.device_tables.find(key);
    const bool covers = table_.query.defined() && range.least >= table_.first &&
                        range.most < table_.first + table_.rows;
    if (covers) return;
  }
  DeviceTable wanted = grown(table_, range, policy);
  if (trained || wanted.rows * cuda::rotary_row_floats(rotary_) * 4 > policy.max_bytes) {
    wanted.first = range.least;
    wanted.rows = range.most - range.least + 1;
  }
  check_room(rotary_, wanted.rows, policy);
  constants_ = prepared.device_constants.get("rotary " + std::to_string(rotation), device, [&] {
    return at::tensor(cuda::rotary_constants(rotary_), at::kDouble);
  });
  if (trained) {
    const at::Tensor base = constants_.reshape({rotary_.groups(), rotary_.pairs()});
    constants_ = (base * alpha.to(at::kDouble).exp()).contiguous();
  }
  wanted.query = filled(Role::kQuery, {wanted.first, wanted.first + wanted.rows - 1});
  wanted.key = rotary_.log_zeta.empty()
                   ? wanted.query
                   : filled(Role::kKey, {wanted.first, wanted.first + wanted.rows - 1});
  table_ = wanted;
  if (!trained) prepared.device_tables.keep(key, table_);
}

at::Tensor CudaRotation::filled(Role role, const PositionRange& range) const {
  cuda::RotaryTableFill fill;
  fill.rotary = &rotary_;
  fill.role = role;
  fill.constants = constants_.data_ptr<double>();
  fill.first = range.least;
  fill.rows = range.most - range.least + 1;
  const at::Tensor table = at::empty({fill.rows, cuda::rotary_row_floats(rotary_)},
                                     at::TensorOptions(device_).dtype(at::kFloat));
  fill.table = table.data_ptr<float>();
  cuda::fill_rotary_table(fill, current_stream(device_)).throw_if_error();
  return table;
}

cuda::RotaryTables CudaRotation::tables(Role role) const {
  const auto* query = table_.query.data_ptr<float>();
  const auto* key = table_.key.data_ptr<float>();
  return {role == Role::kQuery ? query : key, key, table_.first, table_.rows};
}

void CudaRotation::turn(const Sides& sides, const at::Tensor& ids, bool transposed) const {
  cuda::RopeCall call;
  call.q = view_of(sides.q);
  call.q_out = view_of(sides.q_out);
  if (sides.k.defined() && sides.k.numel() > 0) {
    call.k = view_of(sides.k);
    call.k_out = view_of(sides.k_out);
  }
  call.rotary = &rotary_;
  call.tables = tables(Role::kQuery);
  call.positions = view_of_ids(ids);
  call.transposed = transposed;
  cuda::rope(call, current_stream(device_)).throw_if_error();
}

void CudaRotation::turn_one(Role role, const at::Tensor& x, const at::Tensor& out,
                            const at::Tensor& ids, bool transposed) const {
  cuda::RopeCall call;
  call.q = view_of(x);
  call.q_out = view_of(out);
  call.rotary = &rotary_;
  call.tables = tables(role);
  call.positions = view_of_ids(ids);
  call.transposed = transposed;
  cuda::rope(call, current_stream(device_)).throw_if_error();
}

at::Tensor CudaRotation::frequency_gradient(const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& dq, const at::Tensor& dk,
                                            const at::Tensor& ids) const {
  cuda::RopeFrequencyGradientCall call;
  call.q = view_of(q);
  call.dq_out = view_of(dq);
  call.k = view_or_none(k);
  call.dk_out = view_or_none(dk);
  call.rotary = &rotary_;
  call.tables = tables(Role::kQuery);
  call.positions = view_of_ids(ids);
  const auto options = at::TensorOptions(device_);
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(cuda::frequency_gradient_bytes(call)) + 8},
                options.dtype(at::kByte));
  const at::Tensor out = at::empty({rotary_.groups(), rotary_.pairs()}, options.dtype(at::kDouble));
  call.workspace = workspace.data_ptr();
  call.dinv_freq = out.data_ptr<double>();
  cuda::rope_frequency_gradient(call, current_stream(device_)).throw_if_error();
  return out;
}

at::Tensor CudaRotation::alpha_gradient(const at::Tensor& dinv_freq) const {
  const at::Tensor frequency = constants_.reshape({rotary_.groups(), rotary_.pairs()});
  return (frequency * dinv_freq).sum(0);
}

}  // namespace posenc::ops
