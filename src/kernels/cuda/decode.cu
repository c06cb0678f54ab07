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

DecodeParams decode_params(const AttentionParams& params) {
  DecodeParams p;
  p.a = params;
  const std::int64_t heads = static_cast<std::int64_t>(params.batch) * params.kv_heads;
  const std::int64_t wanted =
      std::max<std::int64_t>(6 * multiprocessors() / std::max<std::int64_t>(heads, 1), 1);
  const std::int64_t keys = (params.keys + wanted - 1) / wanted;
  p.split_keys = static_cast<int>(std::clamp<std::int64_t>((keys + 63) / 64 * 64, 64, kSplitKeys));
  p.splits = (params.keys + p.split_keys - 1) / p.split_keys;
  const std::int64_t rows = static_cast<std::int64_t>(params.batch) * params.heads * params.queries;
  auto* at = static_cast<float*>(params.workspace);
  p.softmax = reinterpret_cast<float2*>(at);
  at += 2 * rows * p.splits;
  p.parts = at;
  at += rows * p.splits * params.head_dim;
  if (params.cope.npos_max == 0) return p;
  p.gate_sums = at;
  p.scores = at + rows * p.splits;
  return p;
}

}  // namespace

bool is_decode(const AttentionParams& params) noexcept {
  return params.queries <= kMostDecodeQueries && params.segments == nullptr &&
         params.dropout_threshold == 0 && !only_general(params);
}

std::size_t decode_workspace_bytes(const AttentionParams& params) noexcept {
  const DecodeParams p = decode_params(params);
  const std::int64_t rows = static_cast<std::int64_t>(params.batch) * params.heads * params.queries;
  std::int64_t floats = rows * p.splits * (2 + params.head_dim);
  if (params.cope.npos_max > 0) floats += rows * (p.splits + params.keys);
  return static_cast<std::size_t>(floats) * sizeof(float);
}

Status launch_attention_decode(const AttentionParams& params, Stream stream) noexcept {
  if (!is_decode(params) || params.head_dim % kDecodeVector != 0 || params.head_dim > 256) {
    return {StatusCode::kUnsupported,
            "[attention_decode] is for few queries of unpacked sequences, without dropout, and for "
            "channels in multiples of 8 up to 256"};
  }
  if (params.batch == 0 || params.heads == 0 || params.queries == 0) return {};
  if (params.keys == 0) {
    return {StatusCode::kInvalidArgument, "[attention_decode] there must be keys"};
  }
  if (params.workspace == nullptr || params.workspace_bytes < decode_workspace_bytes(params)) {
    return {StatusCode::kInvalidArgument, "[attention_decode] workspace is too small"};
  }
  const DecodeParams p = decode_params(params);
  return params.element == Element::kFloat16 ? launch_decode<__half>(p, stream)
                                             : launch_decode<__nv_bfloat16>(p, stream);
}

}  // namespace posenc::cuda
