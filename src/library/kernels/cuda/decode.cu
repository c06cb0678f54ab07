#include <algorithm>

#include "kernels/cuda/decode.h"
#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/general.h"
#include "kernels/cuda/launch.h"

namespace posenc::cuda {

template <class T>
Status launch_decode(const DecodeParams& p, Stream stream);
template <>
Status launch_decode<__nv_bfloat16>(const DecodeParams& p, Stream stream);
template <>
Status launch_decode<__half>(const DecodeParams& p, Stream stream);

namespace {

constexpr std::int64_t kLeastSplit = 128;  // keys
constexpr std::int64_t kBlockCost = 128;   // what a block's start and end take, in keys
constexpr std::int64_t kMostWaves = 8;

std::int64_t round_up(std::int64_t x, std::int64_t unit) { return (x + unit - 1) / unit * unit; }

// Splits of each of `heads`, of which the device works on `places` at once: few waves of long splits, and
// none that leaves places empty.
std::int64_t splits_of(std::int64_t heads, std::int64_t places, std::int64_t keys) {
  std::int64_t best = 1;
  std::int64_t least = (heads + places - 1) / places * (keys + kBlockCost);
  for (std::int64_t waves = 1; waves <= kMostWaves; ++waves) {
    const std::int64_t splits = std::min(waves * places / heads, keys / kLeastSplit);
    if (splits < 1) continue;
    const std::int64_t cost =
        (heads * splits + places - 1) / places * ((keys + splits - 1) / splits + kBlockCost);
    if (cost >= least) continue;
    least = cost;
    best = splits;
  }
  return best;
}

void cut_keys(DecodeParams& p) {
  const AttentionParams& a = p.a;
  const int group = a.heads / std::max(a.kv_heads, 1);
  p.row_groups = (group * a.queries + kStepRows - 1) / kStepRows;
  if (a.window_left >= 0 && a.pages.lengths == nullptr) {
    const std::int64_t lowest = std::max<std::int64_t>(a.keys - a.queries - a.window_left, 0);
    p.first_key = static_cast<int>(lowest / kStepKeys * kStepKeys);
  }
  const std::int64_t heads = static_cast<std::int64_t>(a.batch) * a.kv_heads * p.row_groups;
  const int places = multiprocessors() * decode_blocks(a.head_dim, a.cope.npos_max > 0);
  const std::int64_t keys = a.keys - p.first_key;
  const std::int64_t splits = splits_of(std::max<std::int64_t>(heads, 1), places, keys);
  const std::int64_t share = std::max<std::int64_t>((keys + splits - 1) / splits, 1);
  p.split_keys = static_cast<int>(round_up(share, kStepKeys * decode_warps(a.head_dim)));
  p.splits = static_cast<int>((keys + p.split_keys - 1) / p.split_keys);
}

// Lays out the workspace, and returns how many floats it takes. What is read 16 bytes at a time goes first.
std::int64_t lay_out(DecodeParams& p) {
  const AttentionParams& a = p.a;
  const std::int64_t rows = static_cast<std::int64_t>(a.batch) * a.heads * a.queries;
  auto* const first = static_cast<float*>(a.workspace);
  std::int64_t used = 0;
  const auto take = [&](std::int64_t floats) {
    float* const at = first == nullptr ? nullptr : first + used;
    used += rows * floats;
    return at;
  };
  p.parts = take(static_cast<std::int64_t>(p.splits) * a.head_dim);
  if (a.cope.npos_max > 0) {
    p.kept_row = round_up(a.keys, kStepKeys);
    p.scores = take(p.kept_row);
    p.logits = take(logit_stride(a.cope.npos_max));
  }
  p.softmax = reinterpret_cast<float2*>(take(2 * static_cast<std::int64_t>(p.splits)));
  if (a.cope.npos_max > 0) {
    p.gates = reinterpret_cast<std::uint32_t*>(
        take(static_cast<std::int64_t>(p.splits) * decode_warps(a.head_dim)));
  }
  return used;
}

Status check_pages(const AttentionParams& a) {
  const PageTable& pages = a.pages;
  if (pages.pages == nullptr) return {};
  if (pages.lengths == nullptr || a.key_mask != nullptr) {
    return {StatusCode::kUnsupported,
            "[attention_decode] pages need lengths, and no key mask; mask the keys by lengths"};
  }
  if (pages.page_bits < 4 || pages.page_bits > 30 || pages.pool <= 0) {
    return Status::format(StatusCode::kUnsupported,
                          "[attention_decode] pages must have a power of two of tokens, at least "
                          "%lld, but got 2^%d tokens in a pool of %d pages",
                          static_cast<long long>(kLeastPage), pages.page_bits, pages.pool);
  }
  return {};
}

}  // namespace

bool is_decode(const AttentionParams& params) noexcept {
  return params.queries <= kMostDecodeQueries && params.segments == nullptr &&
         params.dropout_threshold == 0 && params.tokens.at_key == nullptr &&
         params.fire.segments == 0 && !params.breaks_sticks && !only_general(params);
}

std::size_t decode_workspace_bytes(const AttentionParams& params) noexcept {
  DecodeParams p;
  p.a = params;
  cut_keys(p);
  return static_cast<std::size_t>(lay_out(p)) * sizeof(float);
}

Status launch_attention_decode(const AttentionParams& params, Stream stream) noexcept {
  if (!is_decode(params) || params.head_dim % kDecodeVector != 0 || params.head_dim > 256) {
    return {StatusCode::kUnsupported,
            "[attention_decode] is for few queries of unpacked sequences, without dropout, and for "
            "channels in multiples of 8 up to 256"};
  }
  if (Status s = check_pages(params); !s.ok()) return s;
  if (params.batch == 0 || params.heads == 0 || params.queries == 0) return {};
  if (params.keys == 0) {
    return {StatusCode::kInvalidArgument, "[attention_decode] there must be keys"};
  }
  const std::size_t bytes = decode_workspace_bytes(params);
  if (params.workspace == nullptr || params.workspace_bytes < bytes) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention_decode] workspace holds %zu bytes; it must hold %zu",
                          params.workspace_bytes, bytes);
  }
  DecodeParams p;
  p.a = params;
  cut_keys(p);
  lay_out(p);
  return params.element == Element::kFloat16 ? launch_decode<__half>(p, stream)
                                             : launch_decode<__nv_bfloat16>(p, stream);
}

}  // namespace posenc::cuda
