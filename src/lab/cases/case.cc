#include "cases/case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace posenc::cases {
namespace {

std::string linear_form(const Case& c) {
  using Options = LinearAttentionOptions;
  if (c.op != Operation::kLinearAttention) return "";
  if (c.linear.form == Options::Form::kCosine) return " cosine";
  return c.linear.feature_map == Options::FeatureMap::kRelu ? " relu" : " elu";
}

std::string masks(const Case& c) {
  std::string text = c.causal ? " causal" : "";
  if (c.window_left >= 0) text += fmt::format(" left {}", c.window_left);
  if (c.window_right >= 0) text += fmt::format(" right {}", c.window_right);
  if (c.padding) text += " padding";
  if (!c.cumulative.empty()) text += fmt::format(" packed {}", fmt::join(c.cumulative, ","));
  if (!c.cumulative_keys.empty()) text += fmt::format("/{}", fmt::join(c.cumulative_keys, ","));
  if (c.dropout > 0.0) text += fmt::format(" dropout {}", c.dropout);
  return text;
}

std::string layout(const Case& c) {
  constexpr std::array<const char*, 3> kOrders = {"", " tokens first", " padded rows"};
  constexpr std::array<const char*, 5> kForms = {"", " offsets", " ids", " ids32", " packed ids"};
  const std::string cache =
      c.cache_dtype ? fmt::format(" cache {}", dtype_name(*c.cache_dtype)) : "";
  const std::string pages = c.page > 0 ? fmt::format(" pages of {}", c.page) : "";
  return fmt::format("{}{}{}{}{}", cache, pages, kOrders[static_cast<std::size_t>(c.order)],
                     kForms[static_cast<std::size_t>(c.positions)], c.in_place ? " in place" : "");
}

}  // namespace

std::string name_of(const Case& c) {
  std::string name = fmt::format("{} {}{} B{} H{}/{} T{}x{} D{} {}{}{}", operation_name(c.op),
                                 c.spec, linear_form(c), c.batch, c.heads, c.kv_heads, c.queries,
                                 c.keys, c.head_dim, dtype_name(c.dtype), masks(c), layout(c));
  if (c.value_dim != 0) name += fmt::format(" values D{}", c.value_dim);
  if (c.policy.mode == CachePolicy::Mode::kOnDemand) name += " no table";
  if (c.gate_shift != 0.0) name += fmt::format(" gates {:+}", c.gate_shift);
  return name;
}

}  // namespace posenc::cases
