// Attention in slices equals attention on the whole sequence: forward and backward, against the fused call and against
// the float64 reference.
#include "posenc/kernels/attention_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cases/attention_data.h"
#include "cases/compare.h"
#include "cases/table.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::Result;
using cases::Tensor;

// Tokens first .. first + count - 1 of a view.
template <class View>
View part(View view, std::int64_t first, std::int64_t count) {
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  view.data = static_cast<Byte*>(view.data) + view.row_offset(0, 0, first);
  view.shape[2] = count;
  return view;
}

struct Range {
  std::int64_t first;
  std::int64_t count;
};

std::vector<Range> ranges(std::int64_t tokens, const std::vector<std::int64_t>& starts) {
  std::vector<Range> all;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : tokens;
    all.push_back({starts[i], end - starts[i]});
  }
  return all;
}

// Adds the values of a part to those of a whole tensor of [B, H, T, C].
void add_part(const std::vector<double>& from, const Range& range, const Tensor& like,
              std::vector<double>& to) {
  const ConstTensorView shape = const_cast<Tensor&>(like).view();  // NOLINT: its shape alone
  const std::int64_t channels = shape.channels();
  std::size_t at = 0;
  for (std::int64_t row = 0; row < shape.batch() * shape.heads(); ++row) {
    for (std::int64_t t = range.first; t < range.first + range.count; ++t) {
      for (std::int64_t c = 0; c < channels; ++c) {
        to[static_cast<std::size_t>((row * shape.tokens() + t) * channels + c)] += from[at++];
      }
    }
  }
}

Tensor empty_part(Tensor& like, const Range& range) {
  const TensorView view = like.view();
  Tensor made({view.batch(), view.heads(), range.count, view.channels()}, DType::kFloat32);
  made.fill(NAN);
  return made;
}

// A problem whose calls run in slices, as the ranks of a ring would make them.
class Sliced {
 public:
  Sliced(AttentionProblem& problem, const std::vector<std::int64_t>& starts)
      : p_(problem), slices_(ranges(problem.data.c.keys, starts)) {
    const AttentionPlan& plan = p_.data.plan;
    if (!has_token_sums(plan)) return;
    std::vector<double> before(static_cast<std::size_t>(p_.data.c.batch * p_.data.c.heads), 0.0);
    for (const Range& keys : slices_) {
      bind(keys, keys);
      sums_.push_back(slice_sums(call_, before));
      const std::vector<double> totals = slice_totals(call_);
      for (std::size_t i = 0; i < before.size(); ++i) before[i] += totals[i];
    }
  }

  void forward() {
    carries_.assign(slices_.size(), std::vector<std::vector<float>>(slices_.size()));
    lse_.resize(slices_.size());
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      bind(slices_[i], slices_[i]);
      SliceRows rows(call_);
      for (std::size_t j = slices_.size(); j-- > 0;) {
        bind(slices_[i], slices_[j]);
        carries_[i][j] = rows.carry;
        attention_slice(call_, slice(i, j), rows).throw_if_error();
      }
      lse_[i].resize(rows.sum.size());
      call_.lse = lse_[i];
      finish_slices(call_, slice(i, 0), rows).throw_if_error();
      spread_lse(i);
    }
  }

  void backward() {
    cases::AttentionData& d = p_.data;
    std::vector<double> dq(d.q.values().size());
    std::vector<double> dk(d.k.values().size());
    std::vector<double> dv(d.v.values().size());
    std::vector<std::vector<double>> dinputs;
    for (const Tensor& input : d.inputs) dinputs.emplace_back(input.values().size());
    dsums_.clear();
    for (const SliceSums& sums : sums_) dsums_.emplace_back(sums.at_key.size());
    d.dparameters.clear();
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      std::vector<float> prefix(carries_sum(d.plan) ? lse_[i].size() : 0);
      for (std::size_t j = 0; j < slices_.size(); ++j) {
        Tensor part_q = empty_part(d.dq, slices_[i]);
        Tensor part_k = empty_part(d.dk, slices_[j]);
        Tensor part_v = empty_part(d.dv, slices_[j]);
        std::vector<Tensor> part_inputs;
        for (Tensor& input : d.dinputs) part_inputs.push_back(empty_part(input, slices_[j]));
        call_backward(i, j, prefix, part_q, part_k, part_v, part_inputs);
        add_part(part_q.values(), slices_[i], d.dq, dq);
        add_part(part_k.values(), slices_[j], d.dk, dk);
        add_part(part_v.values(), slices_[j], d.dv, dv);
        for (std::size_t n = 0; n < part_inputs.size(); ++n) {
          if (has_token_sums(d.plan) && n == token_input(d.plan)) continue;
          add_part(part_inputs[n].values(), slices_[j], d.dinputs[n], dinputs[n]);
        }
      }
    }
    d.dq.assign(dq);
    d.dk.assign(dk);
    d.dv.assign(dv);
    for (std::size_t n = 0; n < dinputs.size(); ++n) d.dinputs[n].assign(dinputs[n]);
    write_sums();
  }

 private:
  // The call of a slice of queries and one of keys.
  void bind(const Range& queries, const Range& keys) {
    call_ = p_.call();
    call_.allow_reference = false;
    call_.q = part(call_.q, queries.first, queries.count);
    call_.out = part(call_.out, queries.first, queries.count);
    call_.k = part(call_.k, keys.first, keys.count);
    call_.v = part(call_.v, keys.first, keys.count);
    views_.assign(call_.inputs.begin(), call_.inputs.end());
    for (ConstTensorView& view : views_) view = part(view, keys.first, keys.count);
    call_.inputs = views_;
    call_.lse = {};
    if (call_.mask.key_mask == nullptr) return;
    mask_.clear();
    for (std::int64_t b = 0; b < p_.data.c.batch; ++b) {
      const std::uint8_t* from = call_.mask.key_mask + b * p_.data.c.keys + keys.first;
      mask_.insert(mask_.end(), from, from + keys.count);
    }
    call_.mask.key_mask = mask_.data();
  }

  AttentionSlice slice(std::size_t i, std::size_t j) const {
    AttentionSlice made{slices_[i].first, slices_[j].first, {}, {}};
    if (!sums_.empty()) {
      made.query_sums = sums_[i].at_query;
      made.key_sums = sums_[j].at_key;
    }
    return made;
  }

  void spread_lse(std::size_t i) {
    const std::int64_t rows = p_.data.c.batch * p_.data.c.heads;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(lse_[i].begin() + row * slices_[i].count, slices_[i].count,
                  p_.data.row_sums.begin() + row * p_.data.c.queries + slices_[i].first);
    }
  }

  void call_backward(std::size_t i, std::size_t j, std::vector<float>& prefix, Tensor& dq,
                     Tensor& dk, Tensor& dv, std::vector<Tensor>& dinputs) {
    cases::AttentionData& d = p_.data;
    bind(slices_[i], slices_[j]);
    AttentionBackwardCall backward;
    backward.forward = call_;
    backward.forward.lse = lse_[i];
    backward.grad_out =
        part(ConstTensorView(d.grad_out.view()), slices_[i].first, slices_[i].count);
    backward.dq = dq.view();
    backward.dk = dk.view();
    backward.dv = dv.view();
    std::vector<TensorView> views;
    for (Tensor& dinput : dinputs) views.push_back(dinput.view());
    backward.dinputs = views;
    std::vector<Parameters> dparameters;
    backward.dparameters = &dparameters;
    SliceGradients carried;
    if (!prefix.empty()) carried.carry = carries_[i][j];
    carried.prefix = prefix;
    if (!sums_.empty()) {
      carried.dquery_sums = dsums_[i];
      carried.dkey_sums = dsums_[j];
    }
    carried.with_sinks = j + 1 == slices_.size();
    attention_slice_backward(backward, slice(i, j), carried).throw_if_error();
    if (d.dparameters.empty()) {
      d.dparameters = dparameters;
      return;
    }
    for (std::size_t e = 0; e < dparameters.size(); ++e) {
      for (std::size_t n = 0; n < dparameters[e].size(); ++n) {
        std::transform(dparameters[e][n].begin(), dparameters[e][n].end(),
                       d.dparameters[e][n].begin(), d.dparameters[e][n].begin(), std::plus<>());
      }
    }
  }

  void write_sums() {
    if (sums_.empty()) return;
    std::vector<double> after(static_cast<std::size_t>(p_.data.c.batch * p_.data.c.heads), 0.0);
    Tensor& to = p_.data.dinputs[token_input(p_.data.plan)];
    for (std::size_t j = slices_.size(); j-- > 0;) {
      bind(slices_[j], slices_[j]);
      slice_sums_backward(call_, dsums_[j], after,
                          part(to.view(), slices_[j].first, slices_[j].count));
      const auto count = static_cast<std::size_t>(slices_[j].count);
      for (std::size_t n = 0; n < dsums_[j].size(); ++n) after[n / count] += dsums_[j][n];
    }
  }

  AttentionProblem& p_;
  std::vector<Range> slices_;
  std::vector<SliceSums> sums_;
  std::vector<std::vector<double>> dsums_;
  std::vector<std::vector<float>> lse_;
  std::vector<std::vector<std::vector<float>>> carries_;  // of queries i before keys j
  AttentionCall call_;
  std::vector<ConstTensorView> views_;
  std::vector<std::uint8_t> mask_;
};

// The largest difference, in units of the largest value; sums of parameters have terms that cancel.
double distance(const Result& a, const Result& b) {
  double largest = b.kind == cases::ResultKind::kParameterGradient ? b.terms : 0.1;
  double worst = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (std::isinf(a.values[i]) && a.values[i] == b.values[i]) continue;
    largest = std::max(largest, std::abs(b.values[i]));
    const double away = std::abs(a.values[i] - b.values[i]);
    worst = std::isnan(away) ? INFINITY : std::max(worst, away);
  }
  return worst / largest;
}

double tolerance_of(const Result& result) {
  return result.kind == cases::ResultKind::kParameterGradient ? 5e-5 : 5e-6;
}

void expect_equal_in_slices(const Case& wanted, const std::vector<std::int64_t>& starts) {
  const Case c = cases::away_from_kinks(wanted);
  SCOPED_TRACE(name_of(c));
  AttentionProblem whole(c);
  whole.forward();
  whole.backward();
  AttentionProblem sliced(c);
  Sliced slices(sliced, starts);
  slices.forward();
  slices.backward();
  const auto got = sliced.results(true);
  const auto want = whole.results(true);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(distance(got[i], want[i]), tolerance_of(want[i])) << got[i].name;
  }
  const auto judged = cases::compare(c.dtype, got, sliced.expected(true));
  EXPECT_TRUE(judged.fine()) << judged.mismatch;
}

const std::vector<const char*> kSpecs = {
    "none",
    "alibi(trainable=true)",
    "t5",
    "kerple(kernel=log)",
    "fire",
    "relative",
    "rope",
    "rope(schedule=learnable) + alibi",
    "xpos(center=30)",
    "cope(npos_max=12)",
    "cope(npos_max=400)",
    "cope(npos_max=12, gate_source=separate)",
    "cope(npos_max=12, gate_source=value)",
    "cope(npos_max=9, variant=alibi)",
    "rope + fire + cope(npos_max=20, gates_see_bias=true)",
    "fox",
    "fox(scaled=true) + rope + alibi",
    "key_bias",
    "stick_breaking",
    "stick_breaking + alibi",
    "sink + alibi",
    "softcap(cap=5) + t5",
    "temperature + rope",
    "relative_query",
};

class AttentionSlices : public ::testing::TestWithParam<const char*> {};

TEST_P(AttentionSlices, EqualTheWholeCall) {
  const Case c{.spec = GetParam(),
               .batch = 2,
               .heads = 4,
               .kv_heads = 2,
               .queries = 301,
               .keys = 301,
               .causal = true};
  expect_equal_in_slices(c, {0, 151});
  expect_equal_in_slices(c, {0, 76, 151, 226});
}

TEST_P(AttentionSlices, EqualTheWholeCallForValuesOfAnotherWidth) {
  if (cases::ties_widths(GetParam())) GTEST_SKIP() << "values are as wide as queries";
  for (const std::int64_t value_dim : {9, 24}) {
    const Case c{.spec = GetParam(),
                 .heads = 4,
                 .kv_heads = 2,
                 .queries = 150,
                 .keys = 150,
                 .value_dim = value_dim};
    expect_equal_in_slices(c, {0, 64, 97});
  }
}

TEST_P(AttentionSlices, EqualTheWholeCallOfBothSides) {
  const Case c{
      .spec = GetParam(), .heads = 2, .kv_heads = 1, .queries = 150, .keys = 150, .causal = false};
  expect_equal_in_slices(c, {0, 33, 97});
}

TEST_P(AttentionSlices, EqualTheWholeCallUnderMasks) {
  Case c{.spec = GetParam(), .queries = 190, .keys = 190, .padding = true, .dropout = 0.2};
  expect_equal_in_slices(c, {0, 64, 130});
  c = {.spec = GetParam(), .queries = 190, .keys = 190, .window_left = 70};
  expect_equal_in_slices(c, {0, 64, 130});
}

INSTANTIATE_TEST_SUITE_P(Specs, AttentionSlices, ::testing::ValuesIn(kSpecs),
                         [](const auto& parameter) {
                           return "Spec" + std::to_string(parameter.index);
                         });

// Sums of slices are float32 and rounded once, at the end.
TEST(AttentionSlicesTypes, NarrowTypesStayWithinTheirRounding) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    const Case c = cases::away_from_kinks(
        {.spec = "rope + cope(npos_max=12)", .queries = 150, .keys = 150, .dtype = dtype});
    AttentionProblem p(c);
    Sliced slices(p, {0, 70});
    slices.forward();
    slices.backward();
    const auto judged = cases::compare(dtype, p.results(true), p.expected(true));
    EXPECT_TRUE(judged.fine()) << judged.mismatch;
  }
}

// A NaN in the last value, and rows that see no key: the same rows are NaN or 0 as in the whole call.
TEST(AttentionSlicesNan, ShowsInTheRowsThatSeeIt) {
  for (const char* spec : {"none", "cope(npos_max=12)", "stick_breaking", "fox + sink"}) {
    SCOPED_TRACE(spec);
    const Case c{.spec = spec, .queries = 150, .keys = 150, .padding = true};
    AttentionProblem whole(c);
    AttentionProblem sliced(c);
    for (AttentionProblem* p : {&whole, &sliced}) {
      std::fill_n(p->data.key_mask.begin(), 20, 0);
      p->data.key_mask.back() = 1;
      std::vector<double> values = p->data.v.values();
      values.back() = NAN;
      values[3] = NAN;  // of a hidden key
      p->data.v.assign(values);
    }
    whole.forward();
    Sliced slices(sliced, {0, 70});
    slices.forward();
    const std::vector<double> got = sliced.data.out.values();
    const std::vector<double> want = whole.data.out.values();
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << i;
      if (std::isnan(want[i])) continue;
      ASSERT_NEAR(got[i], want[i], 1e-5) << i;
    }
    EXPECT_EQ(got[0], 0.0);
    EXPECT_EQ(sliced.data.row_sums[0], -INFINITY);
    EXPECT_EQ(std::isnan(got.back()),
              std::string(spec) != "stick_breaking");  // it skips its own key
  }
}

// Tiles are then those of the whole call, in the same order.
TEST(AttentionSlicesBits, AreThoseOfTheWholeCallAtMultiplesOfATile) {
  for (const char* spec : {"none", "rope + alibi", "fire", "cope(npos_max=20)", "stick_breaking"}) {
    const Case c{.spec = spec, .queries = 512, .keys = 512};
    AttentionProblem whole(c);
    whole.forward();
    AttentionProblem sliced(c);
    Sliced slices(sliced, {0, 128, 384});
    slices.forward();
    EXPECT_EQ(whole.data.out.values(), sliced.data.out.values()) << spec;
    EXPECT_EQ(whole.data.row_sums, sliced.data.row_sums) << spec;
  }
}

TEST(AttentionSlicesErrors, NameTheEncodingAndWhatToDo) {
  const auto message = [](const char* spec) {
    AttentionProblem p(Case{.spec = spec});
    SliceRows rows(p.call());
    return std::string(attention_slice(p.call(), {}, rows).message());
  };
  const auto has = [&](const char* spec, const char* text) {
    EXPECT_NE(message(spec).find(text), std::string::npos) << message(spec);
  };
  has("path", "path applies a step of every token");
  has("grape_ap", "grape_ap has a term for every pair");
  has("fox(prune=true)", "set prune=false");
  has("rope(values=true)", "set values=false");
  has("rope(angles=input)", "takes its angles from an input");
}

TEST(AttentionSlicesErrors, RefuseWhatDoesNotFit) {
  AttentionProblem p(Case{.spec = "fox"});
  SliceRows rows(p.call());
  const Status sums = attention_slice(p.call(), {}, rows);
  EXPECT_STREQ(sums.message(), "[attention_slice] query_sums must have 140 entries but got 0");
  AttentionProblem plain(Case{});
  rows.sum.pop_back();
  const Status state = attention_slice(plain.call(), {}, rows);
  EXPECT_STREQ(state.message(), "[attention_slice] rows must have 140 entries but got 139");
  SliceRows fresh(plain.call());
  const Status place = attention_slice(plain.call(), {.first_query = -1}, fresh);
  EXPECT_STREQ(place.message(),
               "[attention_slice] first_query and first_key must be at least 0 but got -1 and 0");
  AttentionProblem packed(Case{.cumulative = {0, 30, 70}, .cumulative_keys = {0, 30, 70}});
  SliceRows some(packed.call());
  EXPECT_NE(std::string(attention_slice(packed.call(), {}, some).message()).find("packed"),
            std::string::npos);
}

}  // namespace
}  // namespace posenc
