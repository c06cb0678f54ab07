// Checks and converts tensors, positions and masks from C.
#include "capi/arguments.h"

namespace posenc::capi {
namespace {

using Long = long long;

// More elements, or elements between the first and the last, than any memory has; sizes of scratch
// that follow from them stay far from overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

bool fits_memory(const posenc_tensor& t) noexcept {
  std::int64_t elements = 1;
  std::int64_t reach = 0;
  for (int d = 0; d < 4; ++d) {
    const std::int64_t size = std::max<std::int64_t>(t.shape[d], 1);
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kMostElements) return false;
    const std::int64_t stride = t.stride[d];
    if (stride < -kMostElements || stride > kMostElements) return false;
    std::int64_t part = 0;
    if (__builtin_mul_overflow(size - 1, stride < 0 ? -stride : stride, &part)) return false;
    if (part > kMostElements || (reach += part) > kMostElements) return false;
  }
  return true;
}

// Lowest and highest index that ids are read at; fails where the array does not have them.
void check_reach(const char* op, const char* name, const posenc_positions& p, const Tokens& n) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool fits = true;
  const auto add = [&](std::int64_t size, std::int64_t stride) {
    std::int64_t part = 0;
    fits = fits && !__builtin_mul_overflow(size - 1, stride, &part);
    std::int64_t& end = part < 0 ? low : high;
    fits = fits && !__builtin_add_overflow(end, part, &end);
  };
  add(n.batch, p.batch_stride);
  add(n.tokens, p.token_stride);
  add(n.axes, p.axis_stride);
  if (fits && low >= 0 && static_cast<std::uint64_t>(high) < p.count) return;
  fail(StatusCode::kInvalidArgument,
       "[%s] %s has %zu ids, but its strides (%lld, %lld, %lld) over [%lld, %lld, %lld] ask for "
       "others",
       op, name, p.count, static_cast<Long>(p.batch_stride), static_cast<Long>(p.token_stride),
       static_cast<Long>(p.axis_stride), static_cast<Long>(n.batch), static_cast<Long>(n.tokens),
       static_cast<Long>(n.axes));
}

PositionsView ids_of(const char* op, const char* name, const posenc_positions& p, const Tokens& n) {
  PositionsView view;
  if (n.batch == 0 || n.tokens == 0) return view;
  check_pointer(op, name, p.data);
  check_reach(op, name, p, n);
  view.ids = p.data;
  view.ids_are_64_bit = p.form == POSENC_POSITIONS_INT64;
  view.batch_stride = p.batch_stride;
  view.token_stride = p.token_stride;
  view.axis_stride = p.axis_stride;
  return view;
}

}  // namespace

bool is_given(const posenc_tensor& t) noexcept {
  return t.data != nullptr || t.shape[0] != 0 || t.shape[1] != 0 || t.shape[2] != 0 ||
         t.shape[3] != 0;
}

TensorView tensor_of(const char* op, const char* name, const posenc_tensor& t) {
  if (t.dtype < POSENC_FLOAT32 || t.dtype > POSENC_INT8) {
    fail(StatusCode::kInvalidArgument,
         "[%s] %s.dtype must be float32 (0), bfloat16 (1), float16 (2) or int8 (3) but got %d", op,
         name, t.dtype);
  }
  if (t.device != POSENC_HOST) {
    fail(StatusCode::kUnsupported, "[%s] %s.device must be the host (0) but got %d", op, name,
         t.device);
  }
  if (std::any_of(t.shape, t.shape + 4, [](std::int64_t size) { return size < 0; })) {
    fail(StatusCode::kInvalidArgument,
         "[%s] %s must not have a negative size but got [%lld, %lld, %lld, %lld]", op, name,
         static_cast<Long>(t.shape[0]), static_cast<Long>(t.shape[1]),
         static_cast<Long>(t.shape[2]), static_cast<Long>(t.shape[3]));
  }
  if (!fits_memory(t)) {
    fail(StatusCode::kInvalidArgument, "[%s] %s has a shape or strides that are too large", op,
         name);
  }
  TensorView view{t.data, static_cast<DType>(t.dtype), {}, {}};
  std::copy_n(t.shape, 4, view.shape.begin());
  std::copy_n(t.stride, 4, view.stride.begin());
  return view;
}

TensorView required_tensor(const char* op, const char* name, const posenc_tensor& tensor) {
  if (!is_given(tensor)) {
    fail(StatusCode::kInvalidArgument, "[%s] %s must be given, but it is all zero", op, name);
  }
  return tensor_of(op, name, tensor);
}

namespace {

// Without their values looked at.
PositionsView view_of(const char* op, const char* name, const posenc_positions& p,
                      const Tokens& n) {
  if (p.form < POSENC_POSITIONS_DEFAULT || p.form > POSENC_POSITIONS_INT64) {
    fail(StatusCode::kInvalidArgument, "[%s] %s.form must be in [0, 4] but got %d", op, name,
         p.form);
  }
  check_reserved(op, name, p.reserved);
  PositionsView view;
  if (p.form == POSENC_POSITIONS_DEFAULT) return view;
  if (p.form >= POSENC_POSITIONS_INT32) return ids_of(op, name, p, n);
  const auto entries = span_of(op, name, static_cast<const std::int64_t*>(p.data), p.count);
  if (p.form == POSENC_POSITIONS_OFFSETS) {
    check_count(op, name, static_cast<std::size_t>(n.batch), p.count);
    view.offsets = entries;
  } else {
    if (entries.empty()) {
      fail(StatusCode::kInvalidArgument, "[%s] %s must have entries for packed sequences", op,
           name);
    }
    view.cumulative = entries;
  }
  return view;
}

}  // namespace

PositionsView positions_of(const char* op, const char* name, const posenc_positions& p,
                           const Tokens& n) {
  const PositionsView view = view_of(op, name, p, n);
  const Status fits = view.check_values(op, name, n.batch, n.tokens, n.axes);
  if (!fits.ok()) throw Failure{fits};
  return view;
}

BlockTable block_table_of(const char* op, const posenc_block_table& table, std::int64_t batch) {
  BlockTable result{
      .pages = table.pages,
      .blocks = table.blocks,
      .stride = table.stride,
      .page = table.page,
      .lengths = span_of(op, "block_table.lengths", table.lengths, table.lengths_count)};
  if (!result.given()) return result;
  const std::int64_t stride = table.stride != 0 ? table.stride : table.blocks;
  const auto count = static_cast<std::int64_t>(table.pages_count);
  const bool empty = batch < 1 || table.blocks < 1 || stride < 1;  // or an error of the kernel's
  if (!empty && (table.blocks > count || batch - 1 > (count - table.blocks) / stride)) {
    fail(StatusCode::kInvalidArgument,
         "[%s] block_table.pages must have %lld rows of %lld entries, %lld apart, but pages_count "
         "is %zu",
         op, static_cast<Long>(batch), static_cast<Long>(table.blocks), static_cast<Long>(stride),
         table.pages_count);
  }
  for (const std::int64_t n : result.lengths) check_length(op, "block_table.lengths", n);
  return result;
}

AttentionMask mask_of(const char* op, const posenc_mask& mask, const ConstTensorView& k) {
  constexpr std::int32_t kAll = POSENC_CAUSAL | POSENC_WINDOW_LEFT | POSENC_WINDOW_RIGHT;
  constexpr std::int64_t kWidest = std::int64_t{1} << 40;  // wider than any sequence
  check_choice(op, "mask.flags", mask.flags, kAll + 1);
  check_reserved(op, "mask", mask.reserved);
  const auto window = [&](const char* name, std::int32_t flag, std::int64_t width) -> std::int64_t {
    if ((mask.flags & flag) == 0) return -1;
    if (width < 0) {
      fail(StatusCode::kOutOfRange, "[%s] mask.%s must be >= 0 but got %lld", op, name,
           static_cast<Long>(width));
    }
    return std::min(width, kWidest);
  };
  AttentionMask result;
  result.causal = (mask.flags & POSENC_CAUSAL) != 0;
  result.window_left = window("window_left", POSENC_WINDOW_LEFT, mask.window_left);
  result.window_right = window("window_right", POSENC_WINDOW_RIGHT, mask.window_right);
  span_of(op, "mask.key_mask", mask.key_mask, mask.key_mask_count);
  if (mask.key_mask != nullptr) {
    check_count(op, "mask.key_mask", static_cast<std::size_t>(k.batch() * k.tokens()),
                mask.key_mask_count);
  }
  result.key_mask = mask.key_mask;
  result.cu_queries = span_of(op, "mask.cu_queries", mask.cu_queries, mask.cu_queries_count);
  result.cu_keys = span_of(op, "mask.cu_keys", mask.cu_keys, mask.cu_keys_count);
  return result;
}

}  // namespace posenc::capi
