#include "cases/table.h"
#include "posenc/core/error.h"
#include "posenc/kernels/capability.h"

namespace posenc::cases {
namespace {

void add_attention(const std::string& spec, std::vector<Case>& all) {
  all.push_back({.spec = spec, .queries = 20, .keys = 30, .head_dim = 192, .value_dim = 128});
  all.push_back({.spec = spec,
                 .queries = 90,
                 .keys = 90,
                 .head_dim = 64,
                 .value_dim = 32,
                 .dtype = DType::kBfloat16,
                 .cumulative = {0, 1, 40, 40, 90}});
  all.push_back({.spec = spec,
                 .batch = 2,
                 .heads = 4,
                 .queries = 33,
                 .keys = 150,
                 .head_dim = 32,
                 .value_dim = 48,
                 .order = Order::kTokensFirst,
                 .padding = true});
  all.push_back({.spec = spec, .head_dim = 8, .value_dim = 24, .window_left = 40, .dropout = 0.3});
}

void add_decoding(const std::string& spec, std::vector<Case>& all) {
  Case step{.op = Operation::kDecode,
            .spec = spec,
            .heads = 4,
            .queries = 1,
            .keys = 100,
            .head_dim = 192,
            .value_dim = 128};
  all.push_back(step);
  step.keys = 600;
  step.head_dim = 8;
  step.value_dim = 23;
  step.batch = 2;
  step.queries = 3;
  step.padding = true;
  step.cache_dtype = DType::kFloat16;
  all.push_back(step);
  step.page = 16;
  step.keys = 200;
  all.push_back(step);
  const AttentionShapes shapes{.queries = step.queries, .keys = step.keys, .head_dim = 8};
  if (capability(parse_spec(spec), shapes).forward.path != AttentionPath::kDecode) return;
  step.cache_dtype = DType::kInt8;
  all.push_back(step);
}

}  // namespace

bool ties_widths(const std::string& spec) {
  try {
    require_value_width("attention", parse_spec(spec), 2, 1);
  } catch (const Error&) {
    return true;
  }
  return false;
}

std::vector<Case> width_cases(Operation op) {
  std::vector<Case> all;
  for (const std::string& spec : attention_specs()) {
    if (ties_widths(spec)) continue;
    op == Operation::kDecode ? add_decoding(spec, all) : add_attention(spec, all);
  }
  return all;
}

}  // namespace posenc::cases
