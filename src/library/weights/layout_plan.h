// The permutation of the rows of q and k when the channel layout of RoPE changes.
#pragma once

#include <string_view>
#include <unordered_map>

#include "weights/projections.h"
#include "weights/tensor_plan.h"

namespace posenc::weights {

// For each row of a head, the row that it comes from.
std::vector<std::uint32_t> head_rows(const HeadShape& heads, PairLayout from, PairLayout to);

// Every tensor of a checkpoint by its name.
using TensorsByName = std::unordered_map<std::string_view, const TensorInfo*>;

class LayoutPlanner {
 public:
  // Finds out what was not told about the heads; an Error where that cannot be, where the window
  // does not fit, or where q or k is missing. The tensors must outlive the planner.
  LayoutPlanner(TensorsByName tensors, PairLayout from, LayoutOptions options);

  [[nodiscard]] const HeadShape& heads() const { return heads_; }
  [[nodiscard]] TensorPlan plan(const TensorInfo& tensor) const;

 private:
  void check_sizes() const;
  void resolve_head_dim();
  void resolve_window();
  void check_roles() const;
  void plan_rows(const Belonging& belonging, TensorPlan& plan) const;
  void plan_scale(const Belonging& belonging, TensorPlan& plan) const;
  void plan_norm(const Belonging& belonging, TensorPlan& plan) const;
  void plan_latent(TensorPlan& plan) const;
  void plan_fused(ProjectionRole role, TensorPlan& plan) const;
  [[nodiscard]] std::int64_t fused_kv_heads() const;

  TensorsByName tensors_;
  LayoutOptions options_;
  HeadShape heads_;
  std::vector<std::uint32_t> window_;  // head_rows of heads_
};

}  // namespace posenc::weights
