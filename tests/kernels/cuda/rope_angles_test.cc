// The rotation by given angles on the GPU against the formula in float64: types, layouts, shared heads, and its
// gradient. The same device code runs on the host in tests/kernels/rope_angles_test.cc.
#include "kernels/cuda/rope_angles.h"

#include "kernels/cuda/device.h"
#include "posenc/encodings/spec.h"

namespace posenc::cuda {
namespace {

using cases::Order;
using cases::Tensor;
using testing::Bytes;
using testing::Mirror;

class CudaRopeAngles : public testing::Test {};

struct Shape {
  DType dtype = DType::kBfloat16;
  Order order = Order::kDense;
  std::int64_t angle_heads = 2;
  std::int64_t tokens = 150;
  std::int64_t dim = 128;
  std::string rotation;  // of rope's fields
  bool positions = false;
  bool float64 = false;
  bool shifted = false;  // rows have the angles of the token before, the first none
};

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kKvHeads = 2;

Rope rope_of(const std::string& fields) {
  const Spec spec = parse_spec(fields.empty() ? "rope" : "rope(" + fields + ")");
  return std::get<Rope>(spec.encodings[0]);
}

class Problem {
 public:
  explicit Problem(const Shape& shape)
      : s(shape),
        rotary(make_rotary(rope_of(s.rotation), {.head_dim = s.dim, .heads = kHeads}, {})) {
    Rng rng(5);
    for (Tensor* x : {&q, &dq, &q_out})
      *x = Tensor({kBatch, kHeads, s.tokens, s.dim}, s.dtype, s.order);
    for (Tensor* x : {&k, &dk, &k_out})
      *x = Tensor({kBatch, kKvHeads, s.tokens, s.dim}, s.dtype, s.order);
    for (Tensor* x : {&q, &k, &dq, &dk}) x->fill_random(rng);
    q_out.fill(NAN);
    k_out.fill(NAN);
    const std::int64_t width = s.positions ? 1 : rotary.pairs();
    for (std::int64_t i = 0; i < kBatch * s.angle_heads * s.tokens * width; ++i) {
      angles.push_back(static_cast<double>(static_cast<float>(30.0 * rng.normal())));
    }
    for (std::int64_t i = 0; s.positions && i < s.angle_heads * rotary.pairs(); ++i) {
      frequencies.push_back(std::pow(0.9, static_cast<double>(i)));
    }
    for (std::int64_t t = 0; s.shifted && t < s.tokens; ++t) own.push_back(t - 1);
  }

  [[nodiscard]] std::int64_t angle_row(std::int64_t batch, std::int64_t head, std::int64_t heads,
                                       std::int64_t token) const {
    const std::int64_t from = s.shifted ? token - 1 : token;
    if (from < 0) return -1;
    return (batch * s.angle_heads + head * s.angle_heads / heads) * s.tokens + from;
  }
  [[nodiscard]] double frequency(std::int64_t row, std::int64_t pair) const {
    const std::int64_t head = row / s.tokens % s.angle_heads;
    return frequencies[static_cast<std::size_t>(head * rotary.pairs() + pair)];
  }
  [[nodiscard]] double angle(std::int64_t row, std::int64_t pair) const {
    if (row < 0) return 0.0;
    const double x = s.positions ? angles[static_cast<std::size_t>(row)] * frequency(row, pair)
                                 : angles[static_cast<std::size_t>(row * rotary.pairs() + pair)];
    return rotary.inverse ? -x : x;
  }
  // Calls f(row of the angles, pair, the two entries of the tensor) for all pairs of a side.
  template <class F>
  void each_pair(std::int64_t heads, const F& f) const {
    for (std::int64_t i = 0; i < kBatch * heads * s.tokens; ++i) {
      const std::int64_t row =
          angle_row(i / s.tokens / heads, i / s.tokens % heads, heads, i % s.tokens);
      for (std::int64_t pair = 0; pair < rotary.pairs(); ++pair) {
        const auto [a, b] = rotary.channels(pair);
        const auto at = static_cast<std::size_t>(i * s.dim);
        f(row, pair, at + a, at + b);
      }
    }
  }
  [[nodiscard]] std::vector<double> rotated(const Tensor& x, std::int64_t heads,
                                            double sign) const {
    std::vector<double> out = x.values();
    each_pair(heads, [&](std::int64_t row, std::int64_t pair, std::size_t a, std::size_t b) {
      const double c = rotary.attention_factor * std::cos(angle(row, pair));
      const double sine = sign * rotary.attention_factor * std::sin(angle(row, pair));
      const double u = out[a];
      const double v = out[b];
      out[a] = u * c - v * sine;
      out[b] = u * sine + v * c;
    });
    return out;
  }
  void add_angle_gradient(const Tensor& x, const std::vector<double>& dx, std::int64_t heads,
                          std::vector<double>& to) const {
    const std::vector<double> rows = x.values();
    each_pair(heads, [&](std::int64_t row, std::int64_t pair, std::size_t a, std::size_t b) {
      if (row < 0) return;
      const double d = (rotary.inverse ? -1.0 : 1.0) * (rows[a] * dx[b] - rows[b] * dx[a]);
      to[static_cast<std::size_t>(s.positions ? row : row * rotary.pairs() + pair)] +=
          s.positions ? d * frequency(row, pair) : d;
    });
  }

  Shape s;
  Rotary rotary;
  Tensor q, k, dq, dk, q_out, k_out;
  std::vector<double> angles, frequencies;
  std::vector<std::int64_t> own;
};

// The problem's angles on the device.
struct DeviceGiven {
  explicit DeviceGiven(const Problem& x) : frequencies(x.frequencies), own(x.own) {
    angles =
        x.s.float64 ? Bytes(x.angles) : Bytes(std::vector<float>(x.angles.begin(), x.angles.end()));
    given.data = angles.data();
    given.is_float64 = x.s.float64;
    given.heads = x.s.angle_heads;
    given.tokens = x.s.tokens;
    if (x.s.positions) given.frequencies = frequencies.as<double>();
    if (x.s.shifted) given.token_of_row = own.as<std::int64_t>();
  }
  Bytes angles, frequencies, own;
  GivenAngles given;
};

void expect_near(const std::string& what, const std::vector<double>& got,
                 const std::vector<double>& want, double relative, double least) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], relative * std::abs(want[i]) + least) << what << " " << i;
  }
}

std::string name_of(const Shape& s) {
  return s.rotation + " " + dtype_name(s.dtype) + " dim " + std::to_string(s.dim) +
         (s.positions ? " positions" : "") + (s.float64 ? " float64" : "") +
         (s.shifted ? " shifted" : "");
}

void check_forward(Problem& x, const DeviceGiven& given) {
  const Mirror q(x.q), k(x.k), q_out(x.q_out), k_out(x.k_out);
  rope_by_angles({q.view(), k.view(), q_out.view(), k_out.view(), &x.rotary, given.given}, nullptr)
      .throw_if_error();
  testing::check(cudaDeviceSynchronize());
  q_out.bring_back();
  k_out.bring_back();
  const double unit = cases::rounding(x.s.dtype, 1.0);
  expect_near(name_of(x.s) + " q", x.q_out.values(), x.rotated(x.q, kHeads, 1.0), unit, 1e-5);
  expect_near(name_of(x.s) + " k", x.k_out.values(), x.rotated(x.k, kKvHeads, 1.0), unit, 1e-5);
}

void check_backward(Problem& x, const DeviceGiven& given) {
  const std::vector<double> want_q = x.rotated(x.dq, kHeads, -1.0);
  const std::vector<double> want_k = x.rotated(x.dk, kKvHeads, -1.0);
  std::vector<double> want(x.angles.size(), 0.0);
  x.add_angle_gradient(x.q, want_q, kHeads, want);
  x.add_angle_gradient(x.k, want_k, kKvHeads, want);
  std::vector<float> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    Tensor dq = x.dq;
    Tensor dk = x.dk;
    const Mirror q(x.q), k(x.k), to_q(dq), to_k(dk);
    // The last token's angles have no row where rows are shifted.
    const Bytes dangles(std::vector<float>(x.angles.size(), x.s.shifted ? 0.0f : NAN));
    rope_by_angles_backward({q.view(), k.view(), to_q.view(), to_k.view(), to_q.view(), to_k.view(),
                             &x.rotary, given.given, dangles.as<float>(), x.s.shifted},
                            nullptr)
        .throw_if_error();
    testing::check(cudaDeviceSynchronize());
    to_q.bring_back();
    to_k.bring_back();
    const double unit = cases::rounding(x.s.dtype, 1.0);
    expect_near(name_of(x.s) + " dq", dq.values(), want_q, unit, 1e-5);
    expect_near(name_of(x.s) + " dk", dk.values(), want_k, unit, 1e-5);
    const std::vector<float> found = dangles.values<float>();
    expect_near(name_of(x.s) + " dangles", {found.begin(), found.end()}, want, 1e-5, 2e-4);
    if (repeat == 0) first = found;
    EXPECT_EQ(first, found) << "two runs give the same bits";
  }
}

void check_shape(const Shape& s) {
  Problem x(s);
  const DeviceGiven given(x);
  check_forward(x, given);
  check_backward(x, given);
}

// Few enough blocks for compute-sanitizer's race checker, which is told to run these.
TEST_F(CudaRopeAngles, SmallShapesAgreeWithTheFormula) {
  for (const bool positions : {false, true}) {
    check_shape({.tokens = 37, .dim = 64, .positions = positions});
  }
}

TEST_F(CudaRopeAngles, EveryTypeAndLayoutAgreesWithTheFormula) {
  for (const char* rotation :
       {"", "layout=interleaved", "inverse=true", "rotary_dim=32, dim_offset=16",
        "layout=interleaved, rotary_dim=10, dim_offset=3"}) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
      for (const bool positions : {false, true}) {
        Shape s{.dtype = dtype, .rotation = rotation, .positions = positions};
        check_shape(s);
        s.float64 = true;
        check_shape(s);
        s.order = Order::kTokensFirst;
        s.shifted = true;
        check_shape(s);
      }
    }
  }
}

TEST_F(CudaRopeAngles, SharedHeadsAndOtherWidthsAgreeWithTheFormula) {
  for (const std::int64_t dim : {8, 40, 96, 256}) {
    for (const std::int64_t heads : {1, 2}) check_shape({.angle_heads = heads, .dim = dim});
  }
}

TEST_F(CudaRopeAngles, MistakesNameTheArgument) {
  Problem x({});
  const DeviceGiven given(x);
  const auto message = [&](auto change) {
    RopeAnglesCall call{x.q.view(), x.k.view(), x.q_out.view(), x.k_out.view(),
                        &x.rotary,  given.given};  // never read: the checks come first
    change(call);
    const Status status = rope_by_angles(call, nullptr);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_NE(message([](RopeAnglesCall& c) { c.rotary = nullptr; }).find("null"), std::string::npos);
  EXPECT_NE(message([](RopeAnglesCall& c) { c.angles.heads = 5; }).find("heads"),
            std::string::npos);
  EXPECT_NE(message([](RopeAnglesCall& c) { c.angles.tokens = 3; }).find("tokens"),
            std::string::npos);
  EXPECT_NE(message([](RopeAnglesCall& c) { c.q.shape[3] = 8; }).find("channels"),
            std::string::npos);
}

}  // namespace
}  // namespace posenc::cuda
