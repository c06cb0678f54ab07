#include <algorithm>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_sums.h"
#include "kernels/cuda/attention_workspace.h"
#include "kernels/cuda/device/dispatch_attention.cuh"
#include "kernels/cuda/device/scores.cuh"
#include "kernels/cuda/general.h"

namespace posenc::cuda {
namespace {

constexpr std::int64_t kPartialBytes = std::int64_t{256} << 20;  // of sums of one kind
constexpr std::int64_t kTableBytes = std::int64_t{64} << 20;     // of queries times distances
constexpr int kChunkStep = 384;                                  // whole blocks of any size
constexpr std::int64_t kWantedBlocks = 1056;  // eight per multiprocessor of an H200

int groups_of(const AttentionParams& p) {
  switch (padded_dim(p.head_dim)) {
    case 64:
      return backward_query_groups<64>(p);
    case 128:
      return backward_query_groups<128>(p);
    default:
      return backward_query_groups<256>(p);
  }
}

// Hands out pieces of the workspace, or only counts.
class Pieces {
 public:
  explicit Pieces(void* start) : start_(static_cast<std::byte*>(start)) {}
  template <class T>
  T* take(std::int64_t count) {
    auto* piece = start_ == nullptr ? nullptr : reinterpret_cast<T*>(start_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return piece;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::byte* start_;
  std::size_t used_ = 0;
};

void choose_chunk(const AttentionBackwardParams& b, BackwardPlan& plan) {
  const AttentionParams& p = b.forward;
  const int queries = std::max(longest_queries(p), 1);
  plan.space.key_tiles = (longest_keys(p) + 63) / 64;
  plan.space.chunk = (queries + 63) / 64 * 64;
  if (p.cope.npos_max == 0 && !p.breaks_sticks) return;
  const std::int64_t logits = p.cope.npos_max > 0 ? logit_stride(p.cope.npos_max) : 0;
  const std::int64_t per_query = std::int64_t{sequences_of(p)} * p.heads *
                                 (8 * std::int64_t{plan.space.key_tiles} + 4 * logits);
  const std::int64_t fits = b.chunk_bytes / per_query / kChunkStep * kChunkStep;
  const auto most =
      static_cast<int>(std::clamp<std::int64_t>(fits, kChunkStep, std::int64_t{plan.space.chunk}));
  if (most < plan.space.chunk) plan.space.chunk = most;
  plan.chunks = (queries + plan.space.chunk - 1) / plan.space.chunk;
}

// Blocks per head that fill the device, no more than there are blocks of rows, and at least one.
std::int64_t wanted_slots(const AttentionParams& p, std::int64_t blocks) {
  const std::int64_t heads = std::int64_t{sequences_of(p)} * p.heads;
  return std::clamp<std::int64_t>((kWantedBlocks + heads - 1) / heads, 1, blocks);
}

// Numbers of a table of queries times distances.
std::int64_t relative_entries(const AttentionParams& p) {
  return std::int64_t{p.relative.rank} * p.relative.entries;
}

// Bytes of the largest piece that each block of the general kernels has for itself.
std::int64_t general_bytes_per_block(const AttentionParams& p) {
  const std::int64_t logits = std::int64_t{64} * table_stride(p);
  const std::int64_t embedding =
      p.cope.pos_emb != nullptr ? std::int64_t{p.head_dim} * p.cope.npos_max : relative_entries(p);
  return 4 * std::max({logits, embedding, std::int64_t{128} * p.fire.segments});
}

void choose_slots(const AttentionBackwardParams& b, BackwardPlan& plan) {
  const AttentionParams& p = b.forward;
  const int rows = 64 * plan.groups;
  const std::int64_t blocks = (plan.space.chunk + rows - 1) / rows;
  const bool sums_tables = b.dtoeplitz != nullptr && p.toeplitz.table != nullptr;
  const bool has_relative = p.relative.entries > 0;
  const bool sums_positions = p.cope.npos_max > 0 && b.dpos_emb != nullptr;
  const bool sums_fire = p.fire.segments > 0 && b.dfire_rows != nullptr;
  const bool keeps_tables = plan.general && (p.cope.npos_max > 0 || sums_fire || has_relative);
  plan.space.slots = static_cast<int>(blocks);
  if (!sums_tables && !sums_positions && !sums_fire && !keeps_tables) return;
  std::int64_t slots = wanted_slots(p, blocks);
  const auto bound = [&](std::int64_t bytes_per_slot, std::int64_t bytes = kPartialBytes) {
    slots = std::clamp<std::int64_t>(bytes / bytes_per_slot, 1, slots);
  };
  const std::int64_t per_slot = std::int64_t{sequences_of(p)} * p.heads * plan.groups;
  if (sums_tables) bound(per_slot * p.toeplitz.span * 4);
  if (keeps_tables) {
    bound(per_slot * general_bytes_per_block(p), has_relative ? kTableBytes : kPartialBytes);
  }
  if (sums_tables) plan.dtoeplitz_partials = sequences_of(p) * slots * plan.groups;
  if (sums_positions) {
    plan.dembedding_partials = per_slot * slots;
    plan.dembedding_entries =
        p.cope.slopes != nullptr ? 4 : std::int64_t{p.head_dim} * p.cope.npos_max;
  }
  if (has_relative && b.drelative_table != nullptr) {
    const bool per_head = p.relative.head_stride != 0;
    plan.dembedding_partials = per_head ? sequences_of(p) * slots : per_slot * slots;
    plan.dembedding_entries = relative_entries(p) * (per_head ? p.heads : 1);
  }
  if (sums_fire) plan.dfire_partials = sequences_of(p) * slots;
  plan.space.slots = static_cast<int>(slots);
}

// Position logits of the rows that a launch over marked blocks works on.
std::int64_t recheck_logits(const AttentionParams& p) {
  return std::int64_t{kRecheckBlocks} * 64 * logit_stride(p.cope.npos_max);
}

// Marks of the tuned kernels, and tables for what is computed again.
void take_marks(const AttentionParams& p, BackwardPlan& plan, Pieces& pieces) {
  BackwardSpace& space = plan.space;
  const std::int64_t sequences = sequences_of(p);
  space.query_marks = pieces.take<std::uint32_t>(sequences * p.heads * (space.chunk / 64));
  space.key_marks = pieces.take<std::uint32_t>(sequences * p.kv_heads * space.key_tiles *
                                               backward_key_shares(padded_dim(p.head_dim)));
  if (p.cope.npos_max > 0) space.dlogits = pieces.take<float>(recheck_logits(p));
}

// Tables and sums that only the general kernels keep.
void take_general(const AttentionBackwardParams& b, BackwardPlan& plan, Pieces& pieces) {
  const AttentionParams& p = b.forward;
  BackwardSpace& space = plan.space;
  const std::int64_t blocks = std::int64_t{sequences_of(p)} * p.heads * space.slots;
  const std::int64_t entries = 2 * std::int64_t{p.fire.segments};
  space.dlogits = pieces.take<float>(blocks * 64 * table_stride(p));
  if (p.relative.entries > 0) {
    space.relative_tables = pieces.take<float>(blocks * 64 * table_stride(p));
  }
  if (plan.dfire_partials > 0) space.fire_rows = pieces.take<float>(blocks * 64 * entries);
}

}  // namespace

bool only_general(const AttentionParams& p) noexcept {
  if (p.element == Element::kFloat32 || p.relative.entries > 0) return true;
  const CopeTable& cope = p.cope;
  return cope.npos_max > 0 &&
         (cope.gate_k.data != nullptr || cope.npos_max < 2 || cope.npos_max > kTunedPositions);
}
bool needs_general(const AttentionParams& p) noexcept {
  if (p.softcap > 0.0f && (only_streams(p) || p.cope.npos_max > 0)) return true;
  if (only_streams(p) && !may_stream_alone(p)) return true;
  return only_general(p) || (p.cope.npos_max > 0 && groups_of(p) == 0);
}

int general_forward_slots(const AttentionParams& p) noexcept {
  const std::int64_t blocks = std::max((longest_queries(p) + 63) / 64, 1);
  const std::int64_t wanted = table_stride(p) > 0 ? wanted_slots(p, blocks) : blocks;
  if (p.relative.entries == 0) return static_cast<int>(wanted);
  const std::int64_t per_slot =
      std::int64_t{sequences_of(p)} * p.heads * 64 * table_stride(p) * std::int64_t{sizeof(float)};
  return static_cast<int>(std::clamp<std::int64_t>(kTableBytes / per_slot, 1, wanted));
}
std::size_t general_forward_bytes(const AttentionParams& p) noexcept {
  const std::int64_t blocks = std::int64_t{sequences_of(p)} * p.heads * general_forward_slots(p);
  return static_cast<std::size_t>(blocks * 64 * table_stride(p)) * sizeof(float);
}

ForwardPlan plan_forward(const AttentionParams& p, void* workspace) noexcept {
  ForwardPlan plan;
  Pieces pieces(workspace);
  plan.marks = pieces.take<std::uint32_t>(std::int64_t{sequences_of(p)} * p.heads * row_blocks(p));
  if (p.cope.npos_max > 0) plan.tables = pieces.take<float>(recheck_logits(p));
  plan.bytes = pieces.used();
  return plan;
}

BackwardPlan plan_backward(const AttentionBackwardParams& b, void* workspace) noexcept {
  const AttentionParams& p = b.forward;
  BackwardPlan plan;
  plan.general = needs_general(p);
  plan.groups = plan.general ? 1 : groups_of(p);
  choose_chunk(b, plan);
  choose_slots(b, plan);
  BackwardSpace& space = plan.space;
  Pieces pieces(workspace);
  const std::int64_t heads = std::int64_t{sequences_of(p)} * p.heads;
  space.delta = pieces.take<float>(std::int64_t{p.batch} * p.heads * p.queries);
  if (p.cope.npos_max > 0 || p.breaks_sticks) {
    space.carries = pieces.take<std::uint32_t>(heads * space.key_tiles * space.chunk);
    space.prefixes = pieces.take<float>(heads * space.key_tiles * space.chunk);
    space.first_counting = pieces.take<int>(heads * (space.chunk / 64));
  }
  if (p.cope.npos_max > 0) {
    space.logits = pieces.take<float>(heads * space.chunk * logit_stride(p.cope.npos_max));
  }
  space.dembedding = pieces.take<float>(plan.dembedding_partials * plan.dembedding_entries);
  plan.level =
      pieces.take<float>(plan.dembedding_partials > 0 ? kSumSplits * plan.dembedding_entries : 0);
  space.dtoeplitz = pieces.take<float>(plan.dtoeplitz_partials * p.heads * p.toeplitz.span);
  space.dfire_segments =
      pieces.take<float>(plan.dfire_partials * p.heads * 2 * std::int64_t{p.fire.segments});
  if (plan.general) {
    take_general(b, plan, pieces);
  } else {
    take_marks(p, plan, pieces);
  }
  if (plan.chunks > 1) {
    const std::int64_t sums = std::int64_t{p.batch} * p.kv_heads * p.keys * p.head_dim;
    space.dk = pieces.take<float>(sums);
    space.dv = pieces.take<float>(sums);
    if (p.cope.gate_k.data != nullptr) space.dgate_k = pieces.take<float>(sums);
  }
  plan.bytes = pieces.used();
  return plan;
}

}  // namespace posenc::cuda
