#include <fmt/format.h>

#include <algorithm>

#include "cases/table.h"

namespace posenc::cases {
namespace {

struct RopeShape {
  std::int64_t batch, heads, tokens, head_dim;
};

void add_rope(std::vector<TimedCase>& all) {
  for (const RopeShape& s : {RopeShape{8, 32, 512, 64}, {8, 32, 1024, 128}, {8, 32, 2048, 256}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (const char* layout : {"half", "interleaved"}) {
        TimedCase row;
        row.name =
            fmt::format("rope/{}/{}/T{}/D{}", layout, dtype_name(dtype), s.tokens, s.head_dim);
        row.c = {.op = Operation::kRope,
                 .spec = fmt::format("rope(layout={})", layout),
                 .batch = s.batch,
                 .heads = s.heads,
                 .kv_heads = s.heads,
                 .queries = s.tokens,
                 .keys = s.tokens,
                 .head_dim = s.head_dim,
                 .dtype = dtype,
                 .in_place = true,
                 .policy = {.length = s.tokens}};
        row.limit = Limit::kUpdate;
        all.push_back(row);
      }
    }
  }
}

// The causal half: a product with keys and one with values forward, three and two more backward, 2 operations per term,
// halved.
double causal_flops(const Case& c, bool with_backward) {
  const std::int64_t channels =
      (with_backward ? 4 : 1) * c.head_dim + (with_backward ? 3 : 1) * c.value_width();
  return static_cast<double>(c.batch * c.heads) * static_cast<double>(c.queries) *
         static_cast<double>(c.keys) * static_cast<double>(channels);
}

void add_attention(const std::string& label, const std::string& spec, double shift, std::int64_t d,
                   bool with_backward, std::vector<TimedCase>& all) {
  const char* pass = with_backward ? "forward+backward" : "forward";
  TimedCase row;
  row.name = fmt::format("attention/{}/T2048/D{}/{}", label, d, pass);
  row.c = {.spec = spec, .heads = 8, .kv_heads = 8, .queries = 2048, .keys = 2048, .head_dim = d};
  row.c.query_shift = shift;
  row.c.gate_shift = -shift;
  row.with_backward = with_backward;
  row.limit = Limit::kSgemm;
  row.flops = causal_flops(row.c, with_backward);
  row.plain = fmt::format("attention/none/T2048/D{}/{}", d, pass);
  all.push_back(row);
}

// CoPE where the composition no longer fits: memory linear in the length.
void add_long_cope(std::vector<TimedCase>& all) {
  TimedCase row;
  row.name = "attention/cope/T32768/D64/forward+backward";
  row.c = {
      .spec = "cope", .heads = 1, .kv_heads = 1, .queries = 32768, .keys = 32768, .head_dim = 64};
  row.with_backward = true;
  row.limit = Limit::kSgemm;
  row.flops = causal_flops(row.c, true);
  row.baseline = false;
  all.push_back(row);
}

void add_linear_attention(std::vector<TimedCase>& all) {
  for (const bool with_backward : {false, true}) {
    for (std::int64_t t = 1024; t <= 65536; t *= 2) {
      TimedCase row;
      row.name = fmt::format("linear_attention/rope/T{}/D64/{}", t,
                             with_backward ? "forward+backward" : "forward");
      row.c = {.op = Operation::kLinearAttention,
               .spec = "rope",
               .heads = 8,
               .kv_heads = 8,
               .queries = t,
               .keys = t,
               .head_dim = 64};
      row.with_backward = with_backward;
      row.series = with_backward ? "linear_attention/forward+backward" : "linear_attention/forward";
      row.baseline = t <= 4096;
      all.push_back(row);
    }
  }
}

void add_decode(const std::string& spec, std::vector<TimedCase>& all) {
  TimedCase row;
  row.name = fmt::format("decode/{}/K32768/D128/bfloat16", spec);
  row.c = {.op = Operation::kDecode,
           .spec = spec,
           .heads = 32,
           .kv_heads = 32,
           .queries = 1,
           .keys = 32768,
           .head_dim = 128,
           .dtype = DType::kBfloat16};
  row.limit = Limit::kRead;
  row.plain = "decode/none/K32768/D128/bfloat16";
  all.push_back(row);
}

// Caches of other types over float32, with 4 queries of a key head and with 1.
void add_caches(std::int64_t heads, std::vector<TimedCase>& all) {
  const std::string shape = fmt::format("H{}x8/K32768/D128", heads);
  for (const DType cache : {DType::kFloat32, DType::kBfloat16, DType::kFloat16, DType::kInt8}) {
    TimedCase row;
    row.name = fmt::format("decode/cache/{}/{}", shape, dtype_name(cache));
    row.c = {.op = Operation::kDecode,
             .heads = heads,
             .kv_heads = 8,
             .queries = 1,
             .keys = 32768,
             .head_dim = 128};
    if (cache != DType::kFloat32) row.c.cache_dtype = cache;
    row.limit = Limit::kRead;
    row.plain = fmt::format("decode/cache/{}/float32", shape);
    row.baseline = false;
    all.push_back(row);
  }
}

// Values of 128 channels behind keys of 192, as in DeepSeek V3, over values padded to 192.
void add_widths(std::vector<TimedCase>& all) {
  for (const std::string pass : {"forward", "forward+backward", "decode"}) {
    for (const std::int64_t value_dim : {192, 128}) {
      TimedCase row;
      row.name = fmt::format("widths/D192/values{}/{}", value_dim, pass);
      row.c = {.heads = 8, .kv_heads = 8, .queries = 2048, .keys = 2048, .head_dim = 192};
      row.c.value_dim = value_dim;
      if (pass == "decode") {
        row.c.op = Operation::kDecode;
        row.c.queries = 1;
        row.c.keys = 32768;
      }
      row.with_backward = pass == "forward+backward";
      row.limit = pass == "decode" ? Limit::kRead : Limit::kSgemm;
      row.flops = causal_flops(row.c, row.with_backward);
      row.plain = fmt::format("widths/D192/values192/{}", pass);
      row.baseline = false;
      all.push_back(row);
    }
  }
}

// Pages of 16 tokens over a contiguous cache in the same order: heads first, and tokens first as in vLLM.
void add_paged(std::int64_t heads, std::vector<TimedCase>& all) {
  for (const Order order : {Order::kDense, Order::kTokensFirst}) {
    for (const DType cache : {DType::kFloat32, DType::kBfloat16, DType::kInt8}) {
      TimedCase row;
      const char* first = order == Order::kDense ? "heads first" : "tokens first";
      row.name =
          fmt::format("decode/paged/H{}x8/K32768/D128/{}/{}", heads, dtype_name(cache), first);
      row.c = {.op = Operation::kDecode,
               .heads = heads,
               .kv_heads = 8,
               .queries = 1,
               .keys = 32768,
               .head_dim = 128,
               .order = order,
               .page = 16};
      if (cache != DType::kFloat32) row.c.cache_dtype = cache;
      row.limit = Limit::kRead;
      row.plain = row.name + " without pages";
      row.baseline = false;
      all.push_back(row);
    }
  }
}

// At both widths, next to libtorch's composition where there is one.
const std::vector<std::string>& common_specs() {
  static const std::vector<std::string> kSpecs = {
      "none",
      "rope",
      "alibi",
      "t5",
      "kerple",
      "fire",
      "relative",
      "cope",
      "fox",
      "sink",
      "softcap",
      "temperature",
      "relative_query(extent=1024, source=input, rank=16)",
      "relative_query(extent=128, beyond=clip)",
      "stick_breaking",
      "path",
      "wall"};
  return kSpecs;
}

// Every other encoding, and forms that run other code than the default.
std::vector<std::string> other_specs() {
  std::vector<std::string> specs = common_specs();
  const auto common = static_cast<std::ptrdiff_t>(specs.size());
  for (const char* spec :
       {"relative_query(side=key)", "relative_query(vectors=true)", "fox(bidirectional=true)",
        "rope(angles=input)", "rope(angles=input, running=true)", "rope(values=true)"}) {
    specs.emplace_back(spec);
  }
  specs = with_every_encoding(std::move(specs));
  specs.erase(specs.begin(), specs.begin() + common);
  return specs;
}

void add_all_attention(std::vector<TimedCase>& all) {
  for (const std::int64_t d : {64, 128}) {
    for (const bool with_backward : {false, true}) {
      for (const std::string& spec : common_specs()) {
        add_attention(spec, spec, 0.0, d, with_backward, all);
      }
      add_attention("cope(closed gates)", "cope", 1.0, d, with_backward, all);
      add_attention("rope+alibi", "rope + alibi", 0.0, d, with_backward, all);
      add_attention("rope+cope", "rope + cope", 0.0, d, with_backward, all);
    }
  }
  for (const std::string& spec : other_specs()) {
    for (const bool with_backward : {false, true}) {
      add_attention(spec, spec, 0.0, 64, with_backward, all);
    }
  }
}

}  // namespace

std::vector<TimedCase> timed_cases() {
  std::vector<TimedCase> all;
  add_rope(all);
  add_all_attention(all);
  add_long_cope(all);
  add_linear_attention(all);
  for (const char* spec : {"none", "alibi", "t5", "cope", "fox", "relative_query", "stick_breaking",
                           "rope(angles=input)", "grape_ap"}) {
    add_decode(spec, all);
  }
  for (const std::int64_t heads : {32, 8}) add_caches(heads, all);
  for (const std::int64_t heads : {32, 8}) add_paged(heads, all);
  add_widths(all);
  return all;
}

Case small_twin(const Case& c) {
  Case twin = c;
  twin.batch = std::min<std::int64_t>(c.batch, 2);
  const std::int64_t group = c.heads / c.kv_heads;
  twin.kv_heads = std::min<std::int64_t>(c.kv_heads, 2);
  twin.heads = twin.kv_heads * group;
  twin.queries = std::min<std::int64_t>(c.queries, 150);
  twin.keys = std::min<std::int64_t>(c.keys, c.op == Operation::kDecode ? 700 : 150);
  return twin;
}

}  // namespace posenc::cases
