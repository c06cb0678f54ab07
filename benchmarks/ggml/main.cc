// posenc next to ggml on this CPU: RoPE and attention of the same numbers, timed in turns.
//
//   benchmarks/ggml/run.sh DIR             DIR: a checkout of ggml
//   build/ggml/bin/posenc_ggml decode      again, the rows whose names contain a text
//
// Before a row is timed, both results of a short sequence are compared with each other. ggml takes the causal mask as a
// tensor, which it is given ready-made, and writes [B, T, H, D].
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "bench/timing.h"
#include "peer.h"
#include "posenc/core/rng.h"
#include "posenc/core/threads.h"
#include "posenc/kernels/attention.h"
#include "posenc/kernels/rope.h"

namespace posenc::bench {
namespace {

struct Shape {
  std::int64_t heads = 8;
  std::int64_t queries = 2048;
  std::int64_t keys = 2048;
  std::int64_t channels = 64;
};

// A dense tensor [1, heads, tokens, channels] of random numbers, in float32 or rounded to float16.
struct Numbers {
  Numbers(std::int64_t heads, std::int64_t tokens, std::int64_t channels, DType type, Rng& rng)
      : dtype(type), sizes{1, heads, tokens, channels} {
    const std::int64_t count = heads * tokens * channels;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(rng.normal()));
    if (dtype != DType::kFloat32) {
      for (const float x : values) half.push_back(float_to_float16(x));
    }
  }
  TensorView view() {
    void* data = dtype == DType::kFloat32 ? static_cast<void*>(values.data()) : half.data();
    return {data, dtype, sizes, dense_strides(sizes)};
  }
  [[nodiscard]] float at(std::size_t i) const {
    return dtype == DType::kFloat32 ? values[i] : float16_to_float(half[i]);
  }
  // The same numbers for ggml, whose first dimension is the innermost.
  ggml_tensor* copy(ggml_context* context) {
    const ggml_type type = dtype == DType::kFloat32 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    ggml_tensor* tensor = ggml_new_tensor_4d(context, type, sizes[3], sizes[2], sizes[1], 1);
    std::memcpy(tensor->data, view().data, ggml_nbytes(tensor));
    return tensor;
  }
  DType dtype;
  std::array<std::int64_t, 4> sizes;
  std::vector<float> values;
  std::vector<std::uint16_t> half;
};

// The two sides of a row, and the largest difference of their results after both have run once.
struct Pair {
  std::function<void()> posenc;
  std::function<void()> ggml;
  std::function<double()> difference;
};

struct RopeSides {
  RopeSides(const Shape& s, const std::string& layout)
      : x(s.heads, s.queries, s.channels, DType::kFloat32, rng),
        tables(make_rotary(std::get<Rope>(parse_spec("rope(layout=" + layout + ")").encodings[0]),
                           {.head_dim = s.channels, .heads = s.heads}, {s.queries}),
               {.length = s.queries}),
        graph(context_bytes(2 * s.heads * s.queries * s.channels), num_threads()) {
    ggml_context* context = graph.context();
    theirs = x.copy(context);
    ggml_tensor* places = ggml_new_tensor_1d(context, GGML_TYPE_I32, s.queries);
    for (int t = 0; t < s.queries; ++t) static_cast<std::int32_t*>(places->data)[t] = t;
    const int mode = layout == "half" ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
    graph.ends_with(ggml_rope_ext_inplace(context, ggml_permute(context, theirs, 0, 2, 1, 3),
                                          places, nullptr, static_cast<int>(s.channels), mode, 0,
                                          10000.0F, 1.0F, 0.0F, 1.0F, 32.0F, 1.0F));
  }
  void run() {
    RopeCall call;
    call.q = x.view();
    call.q_out = x.view();
    call.tables = &tables;
    rope(call).throw_if_error();
  }
  [[nodiscard]] double difference() const {
    double largest = 0;
    const auto* other = static_cast<const float*>(theirs->data);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x.values[i]) - other[i]));
    }
    return largest;
  }

  Rng rng{1};
  Numbers x;
  RotaryCache tables;
  GgmlGraph graph;
  ggml_tensor* theirs = nullptr;
};

struct AttentionSides {
  AttentionSides(const Shape& s, DType type, const std::string& spec)
      : shape(s),
        q(s.heads, s.queries, s.channels, type, rng),
        k(s.heads, s.keys, s.channels, type, rng),
        v(s.heads, s.keys, s.channels, type, rng),
        out(s.heads, s.queries, s.channels, type, rng),
        plan(parse_spec(spec), {.head_dim = s.channels, .heads = s.heads}, s.heads, {s.keys}),
        graph(context_bytes(4 * s.heads * (s.queries + s.keys) * s.channels + s.queries * s.keys),
              num_threads()) {
    const Spec parsed = parse_spec(spec);
    for (const Encoding& encoding : parsed.encodings) {
      const auto infos = posenc::parameters(encoding, {.head_dim = s.channels, .heads = s.heads});
      parameters.push_back(initial_parameters(infos, rng));
    }
    ggml_context* context = graph.context();
    // ggml's queries are float32, whatever the cache is.
    Numbers wide = q;
    for (std::size_t i = 0; i < wide.values.size(); ++i) wide.values[i] = q.at(i);
    wide.dtype = DType::kFloat32;
    const bool alibi = spec == "alibi";
    theirs = ggml_flash_attn_ext(
        context, wide.copy(context), k.copy(context), v.copy(context), mask(context, alibi),
        1.0F / std::sqrt(static_cast<float>(s.channels)), alibi ? 8.0F : 0.0F, 0.0F);
    ggml_flash_attn_ext_set_prec(theirs, GGML_PREC_F32);
    graph.ends_with(theirs);
  }
  // 0 or, for ALiBi, the distance; -infinity where a query does not see the key. The last query sees all keys.
  [[nodiscard]] ggml_tensor* mask(ggml_context* context, bool alibi) const {
    ggml_tensor* tensor = ggml_new_tensor_2d(context, GGML_TYPE_F16, shape.keys, shape.queries);
    auto* bits = static_cast<ggml_fp16_t*>(tensor->data);
    for (std::int64_t i = 0; i < shape.queries; ++i) {
      const std::int64_t place = shape.keys - shape.queries + i;
      for (std::int64_t j = 0; j < shape.keys; ++j) {
        const float seen = alibi ? static_cast<float>(j - place) : 0.0F;
        *bits++ = ggml_fp32_to_fp16(j <= place ? seen : -INFINITY);
      }
    }
    return tensor;
  }
  void run() {
    AttentionCall call;
    call.plan = &plan;
    call.parameters = &parameters;
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
    call.out = out.view();
    call.mask.causal = true;
    attention(call).throw_if_error();
  }
  [[nodiscard]] double difference() const {
    const auto* other = static_cast<const float*>(theirs->data);  // [T, H, D]
    double largest = 0;
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t t = 0; t < shape.queries; ++t) {
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          const auto mine = static_cast<std::size_t>((h * shape.queries + t) * shape.channels + c);
          const double there = other[(t * shape.heads + h) * shape.channels + c];
          largest = std::max(largest, std::abs(out.at(mine) - there));
        }
      }
    }
    return largest;
  }

  Shape shape;
  Rng rng{2};
  Numbers q, k, v, out;
  AttentionPlan plan;
  std::vector<Parameters> parameters;
  GgmlGraph graph;
  ggml_tensor* theirs = nullptr;
};

template <class Sides>
Pair pair_of(const std::shared_ptr<Sides>& sides) {
  return {[sides] { sides->run(); }, [sides] { sides->graph.run(); },
          [sides] { return sides->difference(); }};
}

// What the names of all rows must contain.
std::string& filter() {
  static std::string text;
  return text;
}

// A row whose results differ by more than the rounding of the type is not timed.
void print_row(const std::string& name, const Pair& small, const Pair& large, double tolerance) {
  small.posenc();
  small.ggml();
  const double difference = small.difference();
  if (!(difference <= tolerance)) {
    throw std::runtime_error(fmt::format("{}: the results differ by {:.1e}", name, difference));
  }
  double mine = INFINITY;
  double theirs = INFINITY;
  repeat({.seconds = 3, .least = 5}, [&] {
    mine = std::min(mine, seconds_of(large.posenc));
    theirs = std::min(theirs, seconds_of(large.ggml));
  });
  fmt::print("{:<44} {:>9.3f} ms {:>9.3f} ms {:>8.2f} {:>10.1e}\n", name, mine * 1e3, theirs * 1e3,
             theirs / mine, difference);
}

void print_ropes() {
  for (const char* layout : {"half", "interleaved"}) {
    const Shape s{.heads = 32, .channels = 128};
    Shape small = s;
    small.queries = 64;
    const std::string name = fmt::format("rope, {}, H 32, T 2048, D 128, float32", layout);
    if (name.find(filter()) == std::string::npos) continue;
    print_row(name, pair_of(std::make_shared<RopeSides>(small, layout)),
              pair_of(std::make_shared<RopeSides>(s, layout)), 1e-4);
  }
}

void print_attention(const Shape& s, DType type, const std::string& spec) {
  const Shape small{.heads = s.heads,
                    .queries = std::min<std::int64_t>(s.queries, 70),
                    .keys = 70,
                    .channels = s.channels};
  const char* what = s.queries == 1 ? "decode" : "attention";
  const std::string name = fmt::format("{}, {}, H {}, T {}, D {}, {}", what, spec, s.heads, s.keys,
                                       s.channels, dtype_name(type));
  if (name.find(filter()) == std::string::npos) return;
  print_row(name, pair_of(std::make_shared<AttentionSides>(small, type, spec)),
            pair_of(std::make_shared<AttentionSides>(s, type, spec)),
            type == DType::kFloat32 ? 1e-4 : 5e-3);
}

void print_table() {
  fmt::print("{} threads; ggml / posenc: times that posenc is faster\n\n", num_threads());
  fmt::print("{:<44} {:>12} {:>12} {:>8} {:>10}\n", "", "posenc", "ggml", "ratio", "difference");
  print_ropes();
  for (const DType type : {DType::kFloat32, DType::kFloat16}) {
    for (const std::int64_t channels : {64, 128}) {
      for (const char* spec : {"none", "alibi"}) {
        print_attention({.channels = channels}, type, spec);
      }
      print_attention({.queries = 1, .keys = 8192, .channels = channels}, type, "none");
    }
  }
}

}  // namespace
}  // namespace posenc::bench

int main(int argc, char** argv) {
  try {
    if (argc > 1) posenc::bench::filter() = argv[1];
    posenc::bench::print_table();
  } catch (const std::exception& error) {
    fmt::print(stderr, "ggml: {}\n", error.what());
    return 1;
  }
}
