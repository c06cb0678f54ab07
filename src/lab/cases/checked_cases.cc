#include <limits>

#include "cases/table.h"
#include "posenc/kernels/capability.h"

namespace posenc::cases {
namespace {

constexpr std::array<std::int64_t, 9> kOddLengths = {1, 2, 17, 63, 64, 65, 127, 128, 129};
constexpr std::array<DType, 2> kHalves = {DType::kBfloat16, DType::kFloat16};

// Masks, groups, dropout, positions and few queries.
void add_settings(const std::string& spec, std::vector<Case>& all) {
  all.push_back({.spec = spec});
  all.push_back({.spec = spec, .causal = false});
  all.push_back({.spec = spec, .batch = 2, .heads = 4, .kv_heads = 2, .queries = 33, .keys = 150});
  all.push_back({.spec = spec, .queries = 150, .keys = 150, .window_left = 40});
  all.push_back({.spec = spec, .batch = 2, .padding = true});
  all.push_back({.spec = spec, .queries = 90, .keys = 90, .cumulative = {0, 1, 40, 40, 90}});
  all.push_back({.spec = spec, .dropout = 0.3});
  all.push_back({.spec = spec, .positions = PositionForm::kOffsets, .offset = 1000});
  all.push_back({.spec = spec, .batch = 2, .queries = 40, .positions = PositionForm::kIds32});
}

// Keys, values and inputs of every type that the queries do not have.
void add_other_caches(const Case& base, std::vector<Case>& all) {
  constexpr std::array<DType, 3> kTypes = {DType::kFloat32, DType::kBfloat16, DType::kFloat16};
  const auto add = [&](DType queries, DType cache) {
    all.push_back(base);
    all.back().dtype = queries;
    all.back().cache_dtype = cache;
  };
  for (const DType cache : kHalves) add(DType::kFloat32, cache);
  if (base.spec != "none" && base.spec != "rope + alibi(trainable=true)") return;
  for (const DType queries : kHalves) {
    for (const DType cache : kTypes) {
      if (cache != queries) add(queries, cache);
    }
  }
}

// int8 keys and values, which decode steps alone read.
void add_int8_caches(const Case& base, std::vector<Case>& all) {
  const AttentionShapes shapes{.queries = base.queries, .keys = base.keys, .head_dim = 16};
  if (capability(parse_spec(base.spec), shapes).forward.path != AttentionPath::kDecode) return;
  Case quantized = base;
  quantized.cache_dtype = DType::kInt8;
  all.push_back(quantized);
  quantized.dtype = DType::kBfloat16;
  quantized.heads = 4;
  quantized.queries = 5;
  quantized.batch = 2;
  quantized.padding = true;
  quantized.order = Order::kTokensFirst;
  all.push_back(quantized);
}

// Pages that fill no chunk of the kernel, and one that is longer; in both orders of a pool.
void add_paged_caches(const Case& base, std::vector<Case>& all) {
  Case paged = base;
  paged.page = 16;
  paged.heads = 4;
  paged.batch = 2;
  paged.queries = 3;
  paged.order = Order::kTokensFirst;
  all.push_back(paged);
  paged.page = 7;
  paged.order = Order::kDense;
  paged.queries = 1;
  paged.padding = true;
  paged.cache_dtype = DType::kFloat16;
  all.push_back(paged);
  const AttentionShapes shapes{.keys = base.keys, .head_dim = 16};
  if (capability(parse_spec(base.spec), shapes).forward.path != AttentionPath::kDecode) return;
  paged.page = 600;
  paged.queries = 5;
  paged.window_left = 200;
  paged.cache_dtype = DType::kInt8;
  all.push_back(paged);
}

void add_decoding(const std::string& spec, std::vector<Case>& all) {
  const Case base{.op = Operation::kDecode, .spec = spec, .queries = 1, .keys = 700};
  Case grouped = base;
  grouped.batch = 2;
  grouped.heads = 4;
  all.push_back(grouped);
  Case window = base;
  window.queries = 3;
  window.window_left = 200;
  window.padding = true;
  all.push_back(window);
  for (const DType dtype : kHalves) {
    Case stored = base;
    stored.dtype = dtype;
    stored.positions = PositionForm::kIds64;
    all.push_back(stored);
  }
  add_other_caches(base, all);
  add_int8_caches(base, all);
  add_paged_caches(base, all);
}

void add_odd_sizes(const std::string& spec, std::vector<Case>& all) {
  for (const std::int64_t t : kOddLengths) {
    all.push_back({.spec = spec, .queries = t, .keys = t});
  }
  for (const std::int64_t d : {16, 18, 40, 64, 100, 128, 256}) {
    all.push_back({.spec = spec, .queries = 20, .keys = 20, .head_dim = d});
  }
  all.push_back({.spec = spec, .batch = 0});
  all.push_back({.spec = spec, .queries = 0});
  all.push_back({.spec = spec, .queries = 5, .keys = 0});
  all.push_back({.spec = spec, .order = Order::kTokensFirst});
  all.push_back({.spec = spec, .head_dim = 18, .order = Order::kPadded});
  all.push_back({.spec = spec, .queries = 5, .keys = 300});
  all.push_back({.spec = spec, .queries = 40, .keys = 10});
  Case band{.spec = spec, .queries = 200, .keys = 200, .causal = false};
  band.window_left = 30;
  band.window_right = 17;
  all.push_back(band);
  for (const std::int64_t queries : {3, 70}) {
    Case unbounded{.spec = spec, .queries = queries, .causal = false};
    unbounded.window_left = unbounded.window_right = std::numeric_limits<std::int64_t>::max();
    all.push_back(unbounded);
  }
  for (const DType dtype : kHalves) {
    all.push_back({.spec = spec, .dtype = dtype});
    all.push_back({.spec = spec, .head_dim = 20, .dtype = dtype});
  }
  add_other_caches({.spec = spec}, all);
  for (const double shift : {-0.7, 0.7}) {
    all.push_back({.spec = spec, .queries = 400, .keys = 400, .gate_shift = shift});
  }
}

std::vector<Case> attention_cases() {
  std::vector<Case> all = width_cases(Operation::kAttention);
  for (const std::string& spec : attention_specs()) add_settings(spec, all);
  for (const char* spec : {"none", "rope + alibi", "cope(npos_max=8)", "rope + cope",
                           "t5 + cope(npos_max=8, gate_source=separate)", "path", "wall"}) {
    add_odd_sizes(spec, all);
  }
  // Windows that begin inside a tile of keys which nothing else cuts.
  all.push_back({.spec = "rope + alibi", .queries = 320, .keys = 320, .window_left = 150});
  Case packed{.spec = "alibi", .queries = 90, .keys = 90, .cumulative = {0, 1, 40, 40, 90}};
  packed.dropout = 0.3;
  all.push_back(packed);
  return all;
}

std::vector<Case> decode_cases() {
  std::vector<Case> all = width_cases(Operation::kDecode);
  for (const std::string& spec : attention_specs()) add_decoding(spec, all);
  // Channels that fill no vector.
  all.push_back({.op = Operation::kDecode,
                 .spec = "rope + alibi",
                 .queries = 2,
                 .keys = 300,
                 .head_dim = 18});
  return all;
}

// Masks, packing and groups, for each kind of spec.
void add_linear_masks(const Case& base, std::vector<Case>& all) {
  for (const bool causal : {true, false}) {
    Case c = base;
    c.causal = causal;
    all.push_back(c);
    Case padded = c;
    padded.batch = 2;
    padded.padding = true;
    all.push_back(padded);
    Case packed = c;
    packed.queries = packed.keys = 130;
    packed.cumulative = {0, 1, 40, 40, 130};
    all.push_back(packed);
    Case grouped = c;
    grouped.batch = 2;
    grouped.heads = 4;
    grouped.queries = 33;
    grouped.keys = 150;
    all.push_back(grouped);
    Case both = c;
    both.queries = 90;
    both.keys = 75;
    both.cumulative = {0, 80, 90};
    both.cumulative_keys = {0, 5, 75};
    both.padding = true;
    all.push_back(both);
  }
}

void add_linear_sizes(const Case& base, std::vector<Case>& all) {
  const auto add = [&](auto change) {
    all.push_back(base);
    change(all.back());
  };
  for (const std::int64_t t : kOddLengths) add([&](Case& c) { c.queries = c.keys = t; });
  for (const std::int64_t d : {2, 18, 40, 64, 100, 128}) add([&](Case& c) { c.head_dim = d; });
  add([](Case& c) { c.batch = 0; });
  add([](Case& c) { c.queries = 0; });
  add([](Case& c) { c.queries = 5, c.keys = 150; });
  add([](Case& c) { c.queries = 140, c.keys = 10; });
  add([](Case& c) { c.positions = PositionForm::kOffsets, c.offset = 1000; });
  add([](Case& c) { c.head_dim = 18, c.order = Order::kTokensFirst; });
  add([](Case& c) { c.head_dim = 18, c.order = Order::kPadded; });
  for (const DType dtype : kHalves) add([&](Case& c) { c.head_dim = 18, c.dtype = dtype; });
}

std::vector<Case> linear_attention_cases() {
  std::vector<Case> all;
  for (const LinearAttentionOptions& options : linear_forms()) {
    Case base{.op = Operation::kLinearAttention, .linear = options};
    for (const char* spec : {"none", "rope", "rope(layout=interleaved, rotary_dim=8, dim_offset=2)",
                             "rope(schedule=learnable)", "xpos(scale_base=64)",
                             "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))",
                             "xpos(scale_base=64) + rope(schedule=learnable)"}) {
      base.spec = spec;
      add_linear_masks(base, all);
    }
    base.spec = "rope(schedule=learnable, theta=[10, 1000, 100, 50])";
    base.heads = 4;
    all.push_back(base);
    base.spec = "rope";
    for (const bool causal : {true, false}) {
      base.causal = causal;
      add_linear_sizes(base, all);
    }
  }
  return all;
}

void add_rope_sizes(const Case& base, std::vector<Case>& all) {
  const auto add = [&](auto change) {
    all.push_back(base);
    change(all.back());
  };
  for (const std::int64_t t : kOddLengths) add([&](Case& c) { c.batch = 1, c.queries = t; });
  for (const std::int64_t d : {2, 6, 22, 64, 100, 256}) add([&](Case& c) { c.head_dim = d; });
  add([](Case& c) { c.batch = 0; });
  add([](Case& c) { c.queries = 0; });
  add([](Case& c) { c.in_place = true; });
  add([](Case& c) { c.order = Order::kTokensFirst; });
  add([](Case& c) { c.order = Order::kPadded, c.in_place = true; });
  add([](Case& c) { c.positions = PositionForm::kOffsets, c.offset = 5; });
  add([](Case& c) { c.positions = PositionForm::kIds32; });
  add([](Case& c) { c.positions = PositionForm::kPlaces; });
  add([](Case& c) {
    c.positions = PositionForm::kPacked;
    c.batch = 1;
    c.cumulative = {0, 5, 5, 7, 17};
  });
  add([](Case& c) { c.policy.mode = CachePolicy::Mode::kOnDemand; });
}

std::vector<Case> rope_cases() {
  std::vector<Case> all;
  Case base{.op = Operation::kRope, .batch = 2, .heads = 4, .queries = 17};
  base.positions = PositionForm::kIds64;
  base.policy = {.length = 32, .block = 16};
  for (const char* spec :
       {"rope", "rope(layout=interleaved)", "rope(inverse=true)",
        "rope(rotary_dim=6, dim_offset=4)", "rope(layout=interleaved, rotary_dim=10, dim_offset=3)",
        "rope(theta=[10000, 100000])",
        "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))",
        "rope(axes=axial(axes=2))", "rope(axes=mrope_interleaved(sections=[4, 2, 2]))", "xpos",
        "xpos(layout=interleaved)", "rope(schedule=learnable, theta=[100, 1000])",
        "rope(schedule=learnable, layout=interleaved, rotary_dim=12, inverse=true)"}) {
    base.spec = spec;
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      base.dtype = dtype;
      all.push_back(base);
      all.push_back(base);
      all.back().in_place = true;
    }
  }
  for (const char* spec : {"rope", "rope(layout=interleaved)"}) {
    base.spec = spec;
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      base.dtype = dtype;
      add_rope_sizes(base, all);
    }
  }
  return all;
}

std::vector<Case> embedding_cases() {
  std::vector<Case> all;
  for (const char* spec : {"sinusoidal", "learned(max_positions=16)", "none",
                           "sinusoidal(layout=concat) + learned(max_positions=16) + rope"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      for (const Order order : {Order::kDense, Order::kPadded}) {
        for (const std::int64_t tokens : {0, 1, 9, 65}) {
          all.push_back({.op = Operation::kEmbedding,
                         .spec = spec,
                         .batch = 2,
                         .heads = 1,
                         .kv_heads = 1,
                         .queries = tokens,
                         .head_dim = 12,
                         .dtype = dtype,
                         .order = order});
        }
      }
    }
  }
  return all;
}

}  // namespace

std::vector<LinearAttentionOptions> linear_forms() {
  std::vector<LinearAttentionOptions> all(3);
  all[1].feature_map = LinearAttentionOptions::FeatureMap::kRelu;
  all[1].epsilon = 0.1;
  all[2].form = LinearAttentionOptions::Form::kCosine;
  return all;
}

std::vector<Case> checked_cases(Operation op) {
  switch (op) {
    case Operation::kRope:
      return rope_cases();
    case Operation::kAttention:
      return attention_cases();
    case Operation::kDecode:
      return decode_cases();
    case Operation::kLinearAttention:
      return linear_attention_cases();
    case Operation::kEmbedding:
      return embedding_cases();
  }
  return {};
}

std::vector<Case> differentiated_cases() {
  std::vector<Case> all;
  for (const std::string& spec : attention_specs()) {
    all.push_back({.spec = spec, .queries = 6, .keys = 9});
    if (!ties_widths(spec)) all.push_back({.spec = spec, .queries = 6, .keys = 9, .value_dim = 5});
  }
  for (const LinearAttentionOptions& options : linear_forms()) {
    all.push_back({.op = Operation::kLinearAttention,
                   .spec = "rope(schedule=learnable)",
                   .queries = 6,
                   .keys = 9,
                   .linear = options});
  }
  for (const char* spec : {"rope", "rope(layout=interleaved, rotary_dim=6)", "xpos",
                           "rope(schedule=learnable, theta=[100, 1000])"}) {
    all.push_back({.op = Operation::kRope, .spec = spec, .queries = 5});
  }
  all.push_back({.op = Operation::kEmbedding,
                 .spec = "sinusoidal + learned(max_positions=16)",
                 .queries = 5,
                 .head_dim = 4});
  return all;
}

}  // namespace posenc::cases
