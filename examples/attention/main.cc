// One attention layer with "rope + cope": forward and backward in float32 and bfloat16, then the same output by decoding
// token by token from a key/value cache. Each result is compared with the float64 reference.
#include <posenc/posenc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using posenc::DType;
using posenc::TensorShape;
using posenc::TensorView;

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kKvHeads = 2;  // grouped queries: four heads share a key
constexpr std::int64_t kTokens = 96;
constexpr std::int64_t kDim = 64;
constexpr TensorShape kQueries = {kBatch, kHeads, kTokens, kDim};
constexpr TensorShape kKeys = {kBatch, kKvHeads, kTokens, kDim};

// A tensor that owns its memory: float32, or the 16 bits of a bfloat16.
struct Tensor {
  Tensor(DType type, const TensorShape& sizes)
      : dtype(type),
        shape(sizes),
        count(static_cast<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3])),
        floats(type == DType::kFloat32 ? count : 0),
        halves(type == DType::kFloat32 ? 0 : count) {}

  TensorView view() {
    return dtype == DType::kFloat32 ? TensorView::dense(floats, shape)
                                    : TensorView::dense(halves, dtype, shape);
  }
  void fill(posenc::Rng& rng) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto x = static_cast<float>(rng.normal());
      if (dtype == DType::kFloat32)
        floats[i] = x;
      else
        halves[i] = posenc::float_to_bfloat16(x);
    }
  }
  // What the tensor holds, for the reference.
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> result(floats.begin(), floats.end());
    for (const std::uint16_t bits : halves) result.push_back(posenc::bfloat16_to_float(bits));
    return result;
  }

  DType dtype;
  TensorShape shape;
  std::size_t count;
  std::vector<float> floats;
  std::vector<std::uint16_t> halves;
};

// What does not depend on the type of the tensors. A plan may be shared between threads.
struct Layer {
  posenc::Spec spec = posenc::parse_spec("rope(theta=500000) + cope(npos_max=32)");
  posenc::ModelShape shape{.head_dim = kDim, .heads = kHeads};
  posenc::AttentionPlan plan{spec, shape, kKvHeads};
  std::vector<posenc::Parameters> parameters = posenc::initial_parameters(spec, shape, /*seed=*/1);
};

struct Tensors {
  explicit Tensors(DType dtype)
      : q(dtype, kQueries), k(dtype, kKeys), v(dtype, kKeys), grad_out(dtype, kQueries) {
    posenc::Rng rng(2);
    for (Tensor* tensor : {&q, &k, &v, &grad_out}) tensor->fill(rng);
  }
  Tensor q, k, v, grad_out;
};

// Prints whether a result is as close to the reference as it should be; counts those that are not.
int check(const char* what, const std::vector<double>& got, const std::vector<double>& want,
          double bound) {
  double error = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error = std::max(error, std::abs(got[i] - want[i]));
    largest = std::max(largest, std::abs(want[i]));
  }
  const bool close = got.size() == want.size() && error <= bound * largest;
  std::printf("  %-22s %s %g of the largest value\n", what, close ? "within" : "NOT within", bound);
  return close ? 0 : 1;
}

// Forward and backward.
int train_step(const Layer& layer, Tensors& t, const posenc::ref::AttentionOutput& want,
               const posenc::ref::AttentionGradients& gradients, double bound) {
  const DType dtype = t.q.dtype;
  Tensor out(dtype, kQueries);
  std::vector<float> lse(static_cast<std::size_t>(kBatch * kHeads * kTokens));
  const posenc::AttentionCall forward{.plan = &layer.plan,
                                      .parameters = &layer.parameters,
                                      .q = t.q.view(),
                                      .k = t.k.view(),
                                      .v = t.v.view(),
                                      .out = out.view(),
                                      .lse = lse,
                                      .mask = {.causal = true}};
  posenc::attention(forward).throw_if_error();
  std::printf("%s: %s\n", posenc::dtype_name(dtype), posenc::explain(forward).c_str());

  Tensor dq(dtype, kQueries), dk(dtype, kKeys), dv(dtype, kKeys);
  std::vector<posenc::Parameters> dparameters;  // shaped as the parameters by the call
  posenc::attention_backward({.forward = forward,
                              .grad_out = t.grad_out.view(),
                              .dq = dq.view(),
                              .dk = dk.view(),
                              .dv = dv.view(),
                              .dparameters = &dparameters})
      .throw_if_error();
  return check("out", out.values(), want.out, bound) +
         check("dq", dq.values(), gradients.q, bound) +
         check("dk", dk.values(), gradients.k, bound) +
         check("dv", dv.values(), gradients.v, bound) +
         check("gradient of cope", dparameters[1][0], gradients.parameters[1][0], bound);
}

void copy_rows(const posenc::ConstTensorView& from, const TensorView& to) {
  const std::size_t bytes = static_cast<std::size_t>(from.channels()) * dtype_size(from.dtype);
  for (std::int64_t b = 0; b < from.batch(); ++b) {
    for (std::int64_t h = 0; h < from.heads(); ++h) {
      for (std::int64_t t = 0; t < from.tokens(); ++t) {
        std::memcpy(static_cast<std::byte*>(to.data) + to.row_offset(b, h, t),
                    static_cast<const std::byte*>(from.data) + from.row_offset(b, h, t), bytes);
      }
    }
  }
}

// One token at a time: its key is rotated into the cache, its query reads the keys so far.
int decode(const Layer& layer, Tensors& t, const posenc::ref::AttentionOutput& want, double bound) {
  const DType dtype = t.q.dtype;
  Tensor keys(dtype, kKeys), values(dtype, kKeys), out(dtype, kQueries);
  for (std::int64_t step = 0; step < kTokens; ++step) {
    const std::vector<std::int64_t> offsets(kBatch, step);
    posenc::rotate_keys(layer.plan, t.k.view().token_range(step, 1),
                        keys.view().token_range(step, 1), {.offsets = offsets})
        .throw_if_error();
    copy_rows(t.v.view().token_range(step, 1), values.view().token_range(step, 1));
    posenc::attention({.plan = &layer.plan,
                       .parameters = &layer.parameters,
                       .q = t.q.view().token_range(step, 1),
                       .k = keys.view().token_range(0, step + 1),
                       .v = values.view().token_range(0, step + 1),
                       .out = out.view().token_range(step, 1),
                       .mask = {.causal = true},
                       .keys_are_turned = true})
        .throw_if_error();
  }
  return check("decoding from a cache", out.values(), want.out, bound);
}

int run(const Layer& layer, DType dtype, double bound) {
  Tensors t(dtype);
  const std::vector<double> q = t.q.values(), k = t.k.values(), v = t.v.values();
  const posenc::ref::AttentionShape shape{.batch = kBatch,
                                          .heads = kHeads,
                                          .kv_heads = kKvHeads,
                                          .queries = kTokens,
                                          .keys = kTokens,
                                          .head_dim = kDim};
  const posenc::ref::AttentionInputs inputs{.q = q, .k = k, .v = v, .of_encodings = {}};
  const posenc::ref::AttentionOptions options{.masking = {.causal = true}};
  const auto want = posenc::ref::attention(layer.spec, layer.parameters, shape, inputs, options);
  const auto gradients = posenc::ref::attention_backward(layer.spec, layer.parameters, shape,
                                                         inputs, t.grad_out.values(), options);
  return train_step(layer, t, want, gradients, bound) + decode(layer, t, want, bound);
}

}  // namespace

int main() {
  try {
    const Layer layer;
    return run(layer, DType::kFloat32, 1e-4) + run(layer, DType::kBfloat16, 0.02) == 0 ? 0 : 1;
  } catch (const posenc::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
