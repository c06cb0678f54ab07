#include <algorithm>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_sums.h"
#include "kernels/cuda/attention_workspace.h"
#include "kernels/cuda/device/scores.cuh"

namespace posenc::cuda {
namespace {

constexpr std::int64_t kPartialBytes = std::int64_t{256} << 20;  // of Toeplitz tables
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
  if (p.cope.npos_max == 0) return;
  const std::int64_t per_query =
      std::int64_t{sequences_of(p)} * p.heads *
      (8 * std::int64_t{plan.space.key_tiles} + 4 * std::int64_t{logit_stride(p.cope.npos_max)});
  const std::int64_t fits = b.chunk_bytes / per_query / kChunkStep * kChunkStep;
  const auto most =
      static_cast<int>(std::clamp<std::int64_t>(fits, kChunkStep, std::int64_t{plan.space.chunk}));
  if (most < plan.space.chunk) plan.space.chunk = most;
  plan.chunks = (queries + plan.space.chunk - 1) / plan.space.chunk;
}

void choose_slots(const AttentionBackwardParams& b, BackwardPlan& plan) {
  const AttentionParams& p = b.forward;
  const int rows = 64 * std::max(plan.groups, 1);
  const std::int64_t blocks = (plan.space.chunk + rows - 1) / rows;
  const bool sums_tables = b.dtoeplitz != nullptr && p.toeplitz.table != nullptr;
  const bool sums_positions = p.cope.npos_max > 0 && b.dpos_emb != nullptr;
  plan.space.slots = static_cast<int>(blocks);
  if (!sums_tables && !sums_positions) return;
  const std::int64_t heads = std::int64_t{sequences_of(p)} * p.heads;
  std::int64_t slots = std::clamp<std::int64_t>((kWantedBlocks + heads - 1) / heads, 1, blocks);
  const std::int64_t per_slot = heads * plan.groups;
  if (sums_tables) {
    slots = std::clamp<std::int64_t>(kPartialBytes / (per_slot * p.toeplitz.span * 4), 1, slots);
    plan.dtoeplitz_partials = sequences_of(p) * slots * plan.groups;
  }
  if (sums_positions) {
    plan.dembedding_partials = per_slot * slots;
    plan.dembedding_entries =
        p.cope.slopes != nullptr ? 4 : std::int64_t{p.head_dim} * p.cope.npos_max;
  }
  plan.space.slots = static_cast<int>(slots);
}

}  // namespace

BackwardPlan plan_backward(const AttentionBackwardParams& b, void* workspace) noexcept {
  const AttentionParams& p = b.forward;
  BackwardPlan plan;
  plan.groups = groups_of(p);
  choose_chunk(b, plan);
  choose_slots(b, plan);
  BackwardSpace& space = plan.space;
  Pieces pieces(workspace);
  const std::int64_t heads = std::int64_t{sequences_of(p)} * p.heads;
  space.delta = pieces.take<float>(std::int64_t{p.batch} * p.heads * p.queries);
  if (p.cope.npos_max > 0) {
    space.carries = pieces.take<std::uint32_t>(heads * space.key_tiles * space.chunk);
    space.prefixes = pieces.take<float>(heads * space.key_tiles * space.chunk);
    space.first_counting = pieces.take<int>(heads * (space.chunk / 64));
    space.logits = pieces.take<float>(heads * space.chunk * logit_stride(p.cope.npos_max));
    space.dembedding = pieces.take<float>(plan.dembedding_partials * plan.dembedding_entries);
    plan.level =
        pieces.take<float>(plan.dembedding_partials > 0 ? kSumSplits * plan.dembedding_entries : 0);
  }
  space.dtoeplitz = pieces.take<float>(plan.dtoeplitz_partials * p.heads * p.toeplitz.span);
  if (plan.chunks > 1) {
    const std::int64_t sums = std::int64_t{p.batch} * p.kv_heads * p.keys * p.head_dim;
    space.dk = pieces.take<float>(sums);
    space.dv = pieces.take<float>(sums);
  }
  plan.bytes = pieces.used();
  return plan;
}

}  // namespace posenc::cuda
