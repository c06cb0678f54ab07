#include "torch/arguments.h"

#include <algorithm>

namespace posenc::ops {
namespace {

DType dtype_of(const at::Tensor& x) {
  if (x.scalar_type() == at::kChar) return DType::kInt8;  // of a cache (check_cached_rows)
  const auto type = storage_type(x.scalar_type());
  TORCH_CHECK(type, "[posenc] tensors must be float32, bfloat16 or float16 here but got ",
              x.scalar_type());
  return *type;
}

void require_zeros_and_ones(const char* op, const at::Tensor& values) {
  if (values.numel() == 0) return;
  const auto least = values.min().item<std::int64_t>();
  const auto most = values.max().item<std::int64_t>();
  TORCH_CHECK(least >= 0 && most <= 1, "[", op,
              "] key_mask must be bool, or integers 0 and 1, but got ", least < 0 ? least : most);
}

}  // namespace

std::optional<DType> storage_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kBFloat16:
      return DType::kBfloat16;
    case at::kHalf:
      return DType::kFloat16;
    default:
      return std::nullopt;
  }
}

std::vector<std::int64_t> lengths_of(const char* op, const char* name, const OptionalTensor& x) {
  if (!x.has_value() || !x->defined()) return {};
  TORCH_CHECK(x->dim() == 1 && at::isIntegralType(x->scalar_type(), false), "[", op, "] ", name,
              " must be a list of whole numbers but got ", x->scalar_type(), " with ", x->dim(),
              " dimensions");
  TORCH_CHECK(x->numel() > 0, "[", op, "] ", name,
              " must rise from 0 to the number of tokens but is empty");
  const at::Tensor wide = x->to(at::kCPU, at::kLong).contiguous();
  return {wide.data_ptr<std::int64_t>(), wide.data_ptr<std::int64_t>() + wide.numel()};
}

at::Tensor key_mask_on(const at::Device& device, const char* op, const OptionalTensor& mask,
                       const at::Tensor& k) {
  if (!mask.has_value() || !mask->defined()) return {};
  TORCH_CHECK(mask->dim() == 2 && mask->size(0) == k.size(0) && mask->size(1) == k.size(2), "[", op,
              "] key_mask must be [batch, keys] = [", k.size(0), ", ", k.size(2), "] but got ",
              mask->sizes());
  TORCH_CHECK(at::isIntegralType(mask->scalar_type(), true), "[", op,
              "] key_mask must be bool, or integers 0 and 1, but got ", mask->scalar_type(),
              "; it is true where a key is seen: of a mask that is added to scores pass mask == 0");
  if (mask->scalar_type() != at::kBool) require_zeros_and_ones(op, mask->to(at::kLong));
  return mask->to(device, at::kByte).contiguous();
}

PositionRange range_of(const char* op, const char* name, const at::Tensor& positions) {
  const PositionRange range{positions.min().item<std::int64_t>(),
                            positions.max().item<std::int64_t>()};
  for (const std::int64_t n : {range.least, range.most}) require_exact_position(op, name, n);
  return range;
}

void check_axes(const char* op, const char* name, const at::Tensor& positions, std::int64_t axes) {
  if (!positions.defined() || axes == 1) return;  // one coordinate is read, the first
  TORCH_CHECK(positions.size(2) == 1 || positions.size(2) == axes, "[", op, "] ", name,
              " must have 1 or ", axes, " coordinates per token, as the spec reads, but got ",
              positions.size(2));
}

std::vector<Parameters> split_parameters(const Prepared& prepared, const at::Tensor& flat) {
  const bool all = flat.numel() == prepared.parameter_count;
  TORCH_CHECK(flat.dim() == 1 && (all || flat.numel() == prepared.trainable_count),
              "[posenc] parameters must have ", prepared.parameter_count, " entries for ",
              to_text(prepared.spec), " (or ", prepared.trainable_count,
              " without the constants) but got ", flat.numel());
  std::vector<Parameters> values = prepared.start;
  const auto split = [&](const auto* at) {
    for (const SpecParameter& p : prepared.parameters) {
      if (!all && !p.info.trainable) continue;
      values[p.encoding][p.index].assign(at, at + p.info.count());
      at += p.info.count();
    }
  };
  const at::Tensor near = flat.is_cpu() ? flat.contiguous() : flat.cpu();
  if (near.scalar_type() == at::kDouble) {
    split(near.data_ptr<double>());
  } else {
    split(near.data_ptr<float>());
  }
  return values;
}

at::Tensor join_parameters(const Prepared& prepared, const std::vector<Parameters>& values,
                           const at::Tensor& like) {
  const bool all = like.numel() == prepared.parameter_count;
  at::Tensor joined = at::empty({like.numel()}, at::kDouble);
  auto* at = joined.data_ptr<double>();
  for (const SpecParameter& p : prepared.parameters) {
    if (!all && !p.info.trainable) continue;
    const std::vector<double>& entries = values[p.encoding][p.index];
    at = std::copy(entries.begin(), entries.end(), at);
  }
  return joined.to(like.options());
}

at::Tensor with_contiguous_rows(const at::Tensor& x) {
  return x.stride(-1) == 1 || x.size(-1) <= 1 ? x : x.contiguous();
}

at::Tensor empty_output(const at::Tensor& q, const at::Tensor& v) {
  if (v.size(3) == q.size(3)) return at::empty_like(q);
  if (q.stride(2) <= q.stride(1)) {
    return at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  }
  return at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, q.options()).transpose(1, 2);
}

TensorView view_of(const at::Tensor& x) {
  TensorView view;
  view.data = x.data_ptr();
  view.dtype = dtype_of(x);
  std::copy_n(x.sizes().begin(), 4, view.shape.begin());
  std::copy_n(x.strides().begin(), 4, view.stride.begin());
  view.stride[3] = 1;
  return view;
}

std::vector<double> values_of(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

at::Tensor tensor_of(const std::vector<double>& values, const at::Tensor& like) {
  return at::tensor(values, at::kDouble).reshape(like.sizes()).to(like.scalar_type());
}

void check_rows(const char* op, const char* name, const at::Tensor& x, const at::Tensor& q,
                bool float32) {
  TORCH_CHECK(x.dim() == 4, "[", op, "] ", name,
              " must be [batch, heads, tokens, channels] but got ", x.dim(), " dimensions");
  TORCH_CHECK(at::isFloatingType(x.scalar_type()), "[", op, "] ", name,
              " must have a floating type but got ", x.scalar_type());
  const bool of_q = !float32 || q.scalar_type() == at::kDouble;
  const at::ScalarType wanted = of_q ? q.scalar_type() : at::kFloat;
  TORCH_CHECK(x.scalar_type() == wanted, "[", op, "] ", name, " must be ", wanted,
              of_q ? " as q is" : "", " but got ", x.scalar_type());
  TORCH_CHECK(x.device() == q.device(), "[", op, "] ", name, " must be on ", q.device(),
              " as q is but is on ", x.device());
}

void check_cached_rows(const char* op, const char* name, const at::Tensor& x, const at::Tensor& q) {
  const bool stored = x.scalar_type() == at::kChar || storage_type(x.scalar_type());
  TORCH_CHECK(stored && q.scalar_type() != at::kDouble, "[", op, "] ", name,
              " must be float32, bfloat16, float16 or int8 with queries in float32, bfloat16 or "
              "float16 but got ",
              x.scalar_type(), " with queries in ", q.scalar_type());
  TORCH_CHECK(x.dim() == 4, "[", op, "] ", name,
              " must be [batch, heads, tokens, channels] but got ", x.dim(), " dimensions");
  TORCH_CHECK(x.device() == q.device(), "[", op, "] ", name, " must be on ", q.device(),
              " as q is but is on ", x.device());
}

at::Tensor full_positions(const char* op, const char* name, const OptionalTensor& positions,
                          std::int64_t batch, std::int64_t tokens) {
  return positions_on(at::kCPU, op, name, positions, batch, tokens);
}

at::Tensor positions_on(const at::Device& device, const char* op, const char* name,
                        const OptionalTensor& positions, std::int64_t batch, std::int64_t tokens) {
  if (!positions.has_value() || !positions->defined()) return {};
  at::Tensor p = *positions;
  TORCH_CHECK(at::isIntegralType(p.scalar_type(), false), "[", op, "] ", name,
              " must be whole numbers but got ", p.scalar_type());
  TORCH_CHECK(p.dim() >= 1 && p.dim() <= 3, "[", op, "] ", name,
              " must be [tokens], [batch, tokens] or [batch, tokens, axes] but got ", p.dim(),
              " dimensions");
  if (p.dim() == 1) p = p.unsqueeze(0);
  if (p.dim() == 2) p = p.unsqueeze(-1);
  TORCH_CHECK((p.size(0) == batch || p.size(0) == 1) && p.size(1) == tokens, "[", op, "] ", name,
              " must have ", batch, " (or 1) x ", tokens, " entries but got ", p.size(0), " x ",
              p.size(1));
  if (p.is_cpu() && p.numel() > 0) range_of(op, name, p);
  return p.expand({batch, tokens, p.size(2)}).to(device, at::kLong).contiguous();
}

Places::Places(const char* op, const at::Tensor& q, const at::Tensor& k, bool causal,
               std::int64_t window_left, std::int64_t window_right, const OptionalTensor& key_mask,
               const OptionalTensor& cu_queries, const OptionalTensor& cu_keys,
               const OptionalTensor& q_positions, const OptionalTensor& k_positions)
    : causal_(causal),
      window_left_(window_left),
      window_right_(window_right),
      key_mask_(key_mask_on(at::kCPU, op, key_mask, k)),
      q_positions_(full_positions(op, "q_positions", q_positions, q.size(0), q.size(2))),
      k_positions_(full_positions(op, "k_positions", k_positions, k.size(0), k.size(2))),
      cu_queries_(lengths_of(op, "cu_queries", cu_queries)),
      cu_keys_(lengths_of(op, "cu_keys", cu_keys)) {}

void Places::check_axes(const char* op, std::int64_t axes) const {
  ops::check_axes(op, "q_positions", q_positions_, axes);
  ops::check_axes(op, "k_positions", k_positions_, axes);
}

AttentionMask Places::mask() const {
  AttentionMask mask;
  mask.causal = causal_;
  mask.window_left = window_left_;
  mask.window_right = window_right_;
  if (key_mask_.defined()) mask.key_mask = key_mask_.data_ptr<std::uint8_t>();
  mask.cu_queries = cu_queries_;
  mask.cu_keys = cu_keys_;
  return mask;
}

PositionsView view_of_positions(const at::Tensor& positions) {
  PositionsView view;
  if (!positions.defined()) return view;
  view.ids = positions.data_ptr<std::int64_t>();
  view.batch_stride = positions.stride(0);
  view.token_stride = positions.stride(1);
  view.axis_stride = positions.size(2) > 1 ? 1 : 0;
  return view;
}

ref::Masking Places::ref_masking() const {
  ref::Masking masking{causal_, window_left_, window_right_, {}, cu_queries_, cu_keys_};
  if (key_mask_.defined()) {
    const auto* data = key_mask_.data_ptr<std::uint8_t>();
    masking.key_mask.assign(data, data + key_mask_.numel());
  }
  return masking;
}

ref::TokenPositions Places::ref_positions() const {
  ref::TokenPositions positions;
  const auto copy = [](const at::Tensor& from, std::vector<std::int64_t>& to) {
    if (!from.defined()) return;
    to.assign(from.data_ptr<std::int64_t>(), from.data_ptr<std::int64_t>() + from.numel());
  };
  copy(q_positions_, positions.query);
  copy(k_positions_, positions.key);
  for (const at::Tensor& p : {q_positions_, k_positions_}) {
    if (p.defined()) positions.axes = std::max(positions.axes, p.size(2));
  }
  return positions;
}

}  // namespace posenc::ops
