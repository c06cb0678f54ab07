#include "weights/layout_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "weights/messages.h"

namespace posenc::weights {
namespace {

Error mistake(ErrorKind kind, const std::string& key, const std::string& rule,
              const std::string& value, const std::string& hint) {
  return {kind, {.scope = "convert", .key = key, .rule = rule, .value = value, .hint = hint}};
}

Error row_error(const TensorInfo& tensor, ProjectionRole role, const std::string& rule) {
  return mistake(
      ErrorKind::kConflict, fmt::format("{} ({})", in_quotes(tensor.name), role_name(role)), rule,
      shape_text(tensor.shape), "check --head-dim, --heads and --kv-heads, or --keep it");
}

std::int64_t rows_of(const TensorInfo& tensor) {
  return tensor.shape.empty() ? 0 : tensor.shape.front();
}

// The same rows for `heads` heads in one block, from row `first` on; the rest stays.
void set_rows(std::vector<std::uint32_t>& block, const std::vector<std::uint32_t>& window,
              std::size_t first) {
  for (std::size_t r = 0; r < window.size(); ++r) {
    block[first + r] = static_cast<std::uint32_t>(first) + window[r];
  }
}

// A row must be whole bytes to be moved: an odd row of 4-bit numbers is not.
std::uint64_t bytes_per_row(const TensorInfo& tensor, std::int64_t rows) {
  const auto count = static_cast<std::uint64_t>(rows);
  const auto bits = static_cast<std::uint64_t>(element_bits(tensor.type));
  const std::uint64_t elements_per_row = rows == 0 ? 0 : tensor.size() * 8 / bits / count;
  if (rows > 0 && elements_per_row * bits % 8 != 0) {
    throw mistake(ErrorKind::kUnsupported, in_quotes(tensor.name), "must have rows of whole bytes",
                  fmt::format("{} {}", element_type_name(tensor.type), shape_text(tensor.shape)),
                  "convert before packing");
  }
  return elements_per_row * bits / 8;
}

}  // namespace

std::vector<std::uint32_t> head_rows(const HeadShape& heads, PairLayout from, PairLayout to) {
  std::vector<std::uint32_t> rows(heads.head_dim);
  std::iota(rows.begin(), rows.end(), 0U);
  const auto first = static_cast<std::uint32_t>(heads.dim_offset);
  const auto pairs = static_cast<std::uint32_t>(heads.rotary_dim / 2);
  if (from == to) return rows;
  for (std::uint32_t p = 0; p < pairs; ++p) {
    const std::uint32_t half[2] = {first + p, first + p + pairs};
    const std::uint32_t neighbours[2] = {first + 2 * p, first + 2 * p + 1};
    for (std::size_t i = 0; i < 2; ++i) {
      if (to == PairLayout::kInterleaved) rows[neighbours[i]] = half[i];
      if (to == PairLayout::kHalf) rows[half[i]] = neighbours[i];
    }
  }
  return rows;
}

LayoutPlanner::LayoutPlanner(TensorsByName tensors, PairLayout from, LayoutOptions options)
    : tensors_(std::move(tensors)), options_(std::move(options)), heads_(options_.heads) {
  check_sizes();
  check_roles();
  if (heads_.head_dim == 0) resolve_head_dim();
  check_sizes();
  resolve_window();
  window_ = head_rows(heads_, from, options_.to);
}

void LayoutPlanner::check_roles() const {
  bool q = false;
  bool k = false;
  for (const auto& [name, tensor] : tensors_) {
    const auto found = belonging(name, options_);
    if (!found || found->part == Part::kInputs) continue;
    const bool fused = found->role >= ProjectionRole::kConcat;
    q = q || fused || found->role == ProjectionRole::kQuery;
    k = k || fused || found->role == ProjectionRole::kKey ||
        found->role == ProjectionRole::kLatentKey;
  }
  if (q && k) return;
  const std::string missing = q ? "k" : k ? "q" : "q and k";
  throw mistake(ErrorKind::kMissingKey, "no projection of " + missing, "was found by its name", "",
                "name them with --q-proj and --k-proj, or --qkv-proj");
}

void LayoutPlanner::check_sizes() const {
  constexpr std::int64_t kLargest = 1 << 20;
  for (const auto& [name, size] : {std::pair{"head_dim", heads_.head_dim},
                                   {"heads", heads_.heads},
                                   {"kv_heads", heads_.kv_heads},
                                   {"rotary_dim", heads_.rotary_dim},
                                   {"dim_offset", heads_.dim_offset}}) {
    if (size >= 0 && size <= kLargest) continue;
    throw mistake(ErrorKind::kOutOfRange, name, "must be in [0, 1048576]", std::to_string(size),
                  "");
  }
}

// Told the number of heads alone, the rows say how large a head is.
void LayoutPlanner::resolve_head_dim() {
  if (heads_.heads == 0) {
    throw mistake(ErrorKind::kMissingKey, "head_dim", "is required", "",
                  "add --head-dim, --heads, or --config config.json");
  }
  for (const auto& [name, tensor] : tensors_) {
    const auto found = belonging(name, options_);
    if (!found || found->part != Part::kRows || rows_of(*tensor) == 0) continue;
    const bool fused = found->role >= ProjectionRole::kConcat;
    if (!fused && found->role != ProjectionRole::kQuery) continue;
    const std::int64_t parts = fused ? heads_.heads + 2 * fused_kv_heads() : heads_.heads;
    if (rows_of(*tensor) % parts != 0) {
      throw row_error(*tensor, found->role, fmt::format("must have a multiple of {} rows", parts));
    }
    heads_.head_dim = rows_of(*tensor) / parts;
    return;
  }
  throw mistake(ErrorKind::kMissingKey, "head_dim", "is required", "", "add --head-dim");
}

void LayoutPlanner::resolve_window() {
  if (heads_.rotary_dim == 0) heads_.rotary_dim = heads_.head_dim - heads_.dim_offset;
  if (heads_.rotary_dim <= 0 || heads_.rotary_dim % 2 != 0 ||
      heads_.dim_offset + heads_.rotary_dim > heads_.head_dim) {
    throw mistake(ErrorKind::kConflict, "rotary_dim",
                  fmt::format("must be even and fit into head_dim ({}) from dim_offset ({}) on",
                              heads_.head_dim, heads_.dim_offset),
                  std::to_string(heads_.rotary_dim), "set --rotary-dim");
  }
  if (heads_.kv_heads > 0 && heads_.heads % heads_.kv_heads != 0) {
    throw mistake(ErrorKind::kConflict, "heads",
                  fmt::format("must be a multiple of kv_heads ({})", heads_.kv_heads),
                  std::to_string(heads_.heads), "");
  }
}

std::int64_t LayoutPlanner::fused_kv_heads() const {
  return heads_.kv_heads > 0 ? heads_.kv_heads : heads_.heads;
}

TensorPlan LayoutPlanner::plan(const TensorInfo& tensor) const {
  TensorPlan plan{tensor, TensorAction::kCopied, "", 0, {}, 0};
  const auto found = belonging(tensor.name, options_);
  if (!found || found->part == Part::kInputs || tensor.size() == 0) return plan;
  if (found->part == Part::kUnknown) {
    throw mistake(ErrorKind::kUnsupported, in_quotes(tensor.name),
                  fmt::format("belongs to a projection ({}) but is of an unknown kind",
                              role_name(found->role)),
                  "", "convert before quantising, or --keep it");
  }
  if (found->part == Part::kScale) {
    plan_scale(*found, plan);
  } else {
    plan_rows(*found, plan);
  }
  return plan;
}

// Fp8 weights carry one scale, one per row, or one per block; the last cannot follow its rows.
void LayoutPlanner::plan_scale(const Belonging& belonging, TensorPlan& plan) const {
  const TensorInfo& scale = plan.source;
  if (byte_length(scale.type, {1}) == scale.size()) return;
  const std::string module = scale.name.substr(0, scale.name.size() - belonging.rest.size());
  const auto weight = tensors_.find(module + "weight");
  if (weight == tensors_.end() || rows_of(*weight->second) != rows_of(scale)) {
    throw mistake(ErrorKind::kUnsupported, in_quotes(scale.name),
                  "must be one scale, or one per row of the weight", shape_text(scale.shape),
                  "convert before quantising");
  }
  plan_rows(belonging, plan);
}

void LayoutPlanner::plan_rows(const Belonging& belonging, TensorPlan& plan) const {
  plan.action = TensorAction::kPermuted;
  plan.note = role_name(belonging.role);
  const ProjectionRole role = belonging.role;
  if (role == ProjectionRole::kQueryNorm || role == ProjectionRole::kKeyNorm)
    return plan_norm(belonging, plan);
  const std::int64_t rows = rows_of(plan.source);
  plan.row_bytes = bytes_per_row(plan.source, rows);
  if (role == ProjectionRole::kLatentKey) return plan_latent(plan);
  if (role != ProjectionRole::kQuery && role != ProjectionRole::kKey) return plan_fused(role, plan);
  const std::int64_t heads = role == ProjectionRole::kQuery ? heads_.heads : heads_.kv_heads;
  if (heads > 0 && rows != heads * heads_.head_dim) {
    throw row_error(plan.source, role,
                    fmt::format("must have {} heads of {} rows", heads, heads_.head_dim));
  }
  if (rows % heads_.head_dim != 0) {
    throw row_error(plan.source, role,
                    fmt::format("must have a multiple of {} rows", heads_.head_dim));
  }
  plan.blocks = {{window_, static_cast<std::uint64_t>(rows / heads_.head_dim)}};
}

// [head_dim] for all heads, or [heads, head_dim], or [heads * head_dim]: channels in that order.
void LayoutPlanner::plan_norm(const Belonging& belonging, TensorPlan& plan) const {
  const ProjectionRole role = belonging.role;
  std::int64_t channels = plan.source.shape.empty() ? 0 : 1;
  for (const std::int64_t dim : plan.source.shape) channels *= dim;
  plan.row_bytes = bytes_per_row(plan.source, channels);
  const std::int64_t heads = role == ProjectionRole::kQueryNorm ? heads_.heads : heads_.kv_heads;
  const bool fits =
      channels > 0 && channels % heads_.head_dim == 0 &&
      (heads == 0 || channels == heads_.head_dim || channels == heads * heads_.head_dim);
  if (!fits) {
    throw row_error(plan.source, role,
                    fmt::format("must have {} channels, or that for every head", heads_.head_dim));
  }
  plan.blocks = {{window_, static_cast<std::uint64_t>(channels / heads_.head_dim)}};
}

void LayoutPlanner::plan_latent(TensorPlan& plan) const {
  const std::int64_t rows = rows_of(plan.source);
  if (rows < heads_.rotary_dim) {
    throw row_error(plan.source, ProjectionRole::kLatentKey,
                    fmt::format("must have at least {} rows", heads_.rotary_dim));
  }
  plan.first_row = static_cast<std::uint64_t>(rows - heads_.rotary_dim);
  std::vector<std::uint32_t> tail;
  for (std::int64_t r = 0; r < heads_.rotary_dim; ++r) {
    tail.push_back(window_[heads_.dim_offset + r] - static_cast<std::uint32_t>(heads_.dim_offset));
  }
  plan.blocks = {{std::move(tail), 1}};
}

void LayoutPlanner::plan_fused(ProjectionRole role, TensorPlan& plan) const {
  if (role == ProjectionRole::kUnclear) {
    throw mistake(ErrorKind::kMissingKey, in_quotes(plan.source.name),
                  "holds q, k and v in an unknown order", "", "add --qkv concat or --qkv grouped");
  }
  const std::int64_t rows = rows_of(plan.source);
  if (heads_.heads == 0) {
    throw mistake(ErrorKind::kMissingKey, "heads",
                  "is required, because " + in_quotes(plan.source.name) + " holds q, k and v", "",
                  "add --heads and --kv-heads, or --config config.json");
  }
  const std::int64_t kv_heads = fused_kv_heads();
  if (rows != (heads_.heads + 2 * kv_heads) * heads_.head_dim) {
    throw row_error(plan.source, role,
                    fmt::format("must have {} + 2 * {} heads of {} rows", heads_.heads, kv_heads,
                                heads_.head_dim));
  }
  if (role == ProjectionRole::kConcat) {  // all of q and k; v follows and stays
    plan.blocks = {{window_, static_cast<std::uint64_t>(heads_.heads + kv_heads)}};
    return;
  }
  const auto head_dim = static_cast<std::size_t>(heads_.head_dim);
  const auto turned = static_cast<std::size_t>(heads_.heads / kv_heads) + 1;  // its q, and k
  std::vector<std::uint32_t> group((turned + 1) * head_dim);
  std::iota(group.begin(), group.end(), 0U);
  for (std::size_t head = 0; head < turned; ++head) set_rows(group, window_, head * head_dim);
  plan.blocks = {{std::move(group), static_cast<std::uint64_t>(kv_heads)}};
}

}  // namespace posenc::weights
