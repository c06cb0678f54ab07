// NaN, infinity and overflow: a row of the output is NaN exactly where it sees one, forward and
// backward, in the reference and in the kernels; 0 only where no key is visible. The rows that must be
// NaN are worked out here from the mask alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cases/attention_data.h"
#include "cases/table.h"
#include "kernels/ref/mask.h"
#include "posenc/core/error.h"
#include "support/sanitizers.h"
#include "support/simd_targets.h"

namespace posenc::cases {
namespace {

enum class Input { kQuery, kKey, kValue, kOfEncoding, kGradient };
constexpr std::array kInputs = {Input::kQuery, Input::kKey, Input::kValue, Input::kOfEncoding,
                                Input::kGradient};
constexpr std::array kInputNames = {"q", "k", "v", "inputs", "grad_out"};

// One token of one input, in one batch entry and head.
struct Poison {
  Input input;
  std::int64_t batch;
  std::int64_t head;  // of the queries, or of the keys
  std::int64_t token;
  double value;

  [[nodiscard]] bool on_queries() const {
    return input == Input::kQuery || input == Input::kGradient;
  }
};

Tensor& tensor_of(AttentionData& data, Input input) {
  switch (input) {
    case Input::kQuery:
      return data.q;
    case Input::kKey:
      return data.c.cache_dtype == DType::kInt8 ? data.k_scales : data.k;
    case Input::kValue:
      return data.c.cache_dtype == DType::kInt8 ? data.v_scales : data.v;
    case Input::kOfEncoding:
      return data.inputs.at(0);
    case Input::kGradient:
      return data.grad_out;
  }
  throw std::logic_error("no such input");
}

void apply(const Poison& poison, AttentionData& data) {
  Tensor& tensor = tensor_of(data, poison.input);
  const TensorView view = tensor.view();
  std::vector<double> values = tensor.values();
  const std::int64_t row =
      (poison.batch * view.heads() + poison.head) * view.tokens() + poison.token;
  std::fill_n(values.begin() + row * view.channels(), view.channels(), poison.value);
  tensor.assign(values);
}

bool gates_read_values(const Spec& spec) {
  return std::any_of(spec.encodings.begin(), spec.encodings.end(), [](const Encoding& e) {
    const auto* cope = std::get_if<Cope>(&e);
    return cope != nullptr && cope->gate_source == Cope::GateSource::kValue;
  });
}

// Which rows of the results must be NaN.
struct Rows {
  std::vector<bool> out, dq;  // [B, H, Tq]
  std::vector<bool> dk, dv;   // [B, Hkv, Tk]
  bool any = false;
};

// Whether a query has its own row of a poisoned input, besides those of the keys that it sees; and whether only that.
struct OwnRow {
  bool read = false;
  bool alone = false;
  bool running = false;  // the row is a sum over the tokens up to it
  bool step = false;     // the row is a step on the way to keys before it
};
OwnRow own_row(const AttentionData& data, const Poison& poison) {
  if (poison.input != Input::kOfEncoding) return {};
  const Encoding& encoding = data.spec.encodings[data.token_inputs.at(0).encoding];
  if (std::holds_alternative<RelativeQuery>(encoding)) return {.read = true, .alone = true};
  if (const auto* grape = std::get_if<GrapeAp>(&encoding)) {
    return {.read = true, .alone = grape->separate};
  }
  if (is_chain(encoding)) return {.step = true};
  const auto* rope = std::get_if<Rope>(&encoding);
  return {.read = rope != nullptr, .running = rope != nullptr && rope->running};
}

// Keys whose own value is poisoned: one, or where values are sums, all after it in its sequence.
std::vector<bool> poisoned_keys(const AttentionData& data, const ref::Mask& mask,
                                const Poison& poison, bool running) {
  std::vector<bool> keys(static_cast<std::size_t>(data.c.keys), false);
  const ref::Places& places = mask.keys();
  const auto first = static_cast<std::size_t>(poison.token);
  const bool hidden =
      running && data.key_mask[static_cast<std::size_t>(poison.batch * data.c.keys) + first] == 0;
  for (std::size_t j = first; j < keys.size() && !hidden; ++j) {
    keys[j] = j == first || (running && places.sequence[j] == places.sequence[first]);
  }
  return keys;
}

// Whether a query makes the step of a token: it is its own or an earlier one, is not hidden, and the query sees a key
// before it.
bool makes_step(const AttentionData& data, const ref::Mask& mask, const Poison& poison,
                const std::vector<bool>& visible, std::int64_t query) {
  const auto s = static_cast<std::size_t>(poison.token);
  const auto i = static_cast<std::size_t>(query);
  const bool hidden = data.key_mask[static_cast<std::size_t>(poison.batch * data.c.keys) + s] == 0;
  if (hidden || mask.keys().sequence[s] != mask.queries().sequence[i]) return false;
  const auto before = visible.begin() + static_cast<std::ptrdiff_t>(s);
  return mask.keys().place[s] <= mask.queries().place[i] &&
         std::find(visible.begin(), before, true) != before;
}

bool reads_poison(const ref::Mask& mask, const OwnRow& own, const std::vector<bool>& poisoned,
                  const std::vector<bool>& visible, std::int64_t query) {
  for (std::size_t j = 0; j < poisoned.size(); ++j) {
    if (!poisoned[j]) continue;
    const auto i = static_cast<std::size_t>(query);
    const bool is_own = mask.keys().place[j] == mask.queries().place[i] &&
                        mask.keys().sequence[j] == mask.queries().sequence[i];
    if ((own.read && is_own) || (!own.alone && visible[j])) return true;
  }
  return false;
}

bool breaks_sticks(const Spec& spec) {
  return std::any_of(spec.encodings.begin(), spec.encodings.end(),
                     [](const Encoding& e) { return std::holds_alternative<StickBreaking>(e); });
}

Rows predict(AttentionData& data, const Poison& poison) {
  const Case& c = data.c;
  const std::int64_t sharing = c.heads / tensor_of(data, poison.input).view().heads();
  const ref::Mask mask("test", data.ref_shape(), data.ref_masking());
  const std::int64_t group = c.heads / c.kv_heads;
  Rows rows;
  rows.out.assign(static_cast<std::size_t>(c.batch * c.heads * c.queries), false);
  rows.dq = rows.out;
  rows.dk.assign(static_cast<std::size_t>(c.batch * c.kv_heads * c.keys), false);
  rows.dv = rows.dk;
  const OwnRow own = own_row(data, poison);
  const bool weights_are_nan = poison.input != Input::kValue || gates_read_values(data.spec);
  for (std::int64_t h = 0; h < c.heads; ++h) {
    if (poison.head != h / sharing) continue;
    for (std::int64_t i = 0; i < c.queries; ++i) {
      std::vector<bool> visible = mask.row(poison.batch, i);
      for (std::size_t j = 0; breaks_sticks(data.spec) && j < visible.size(); ++j) {
        visible[j] =
            visible[j] && mask.keys().place[j] < mask.queries().place[static_cast<std::size_t>(i)];
      }
      const bool blind = std::find(visible.begin(), visible.end(), true) == visible.end();
      const bool sees =
          poison.on_queries() ? i == poison.token
          : own.step
              ? makes_step(data, mask, poison, visible, i)
              : reads_poison(mask, own, poisoned_keys(data, mask, poison, own.running), visible, i);
      if (!sees || blind) continue;
      const auto row = static_cast<std::size_t>((poison.batch * c.heads + h) * c.queries + i);
      rows.any = rows.dq[row] = true;
      rows.out[row] = poison.input != Input::kGradient;
      for (std::int64_t j = 0; j < c.keys; ++j) {
        if (!visible[static_cast<std::size_t>(j)]) continue;
        const auto key =
            static_cast<std::size_t>((poison.batch * c.kv_heads + h / group) * c.keys + j);
        rows.dk[key] = true;
        if (weights_are_nan) rows.dv[key] = true;
      }
    }
  }
  return rows;
}

const Result& named(const std::vector<Result>& results, const std::string& name) {
  return *std::find_if(results.begin(), results.end(),
                       [&](const Result& r) { return r.name == name; });
}

// Every entry of a row is NaN where it must be, and none elsewhere.
void expect_rows(const std::vector<Result>& results, const std::string& name,
                 const std::vector<bool>& expected) {
  const std::vector<double>& values = named(results, name).values;
  if (expected.empty()) return;
  const std::size_t width = values.size() / expected.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isnan(values[i]), expected[i / width])
        << name << " row " << i / width << " entry " << i % width << " is " << values[i];
  }
}

// Gradients of parameters sum over rows: NaN in each encoding that has any, where a row is.
void expect_parameters(const AttentionData& data, const std::vector<Result>& results, bool nan) {
  for (std::size_t e = 0; e < data.spec.encodings.size(); ++e) {
    const auto infos = parameters(data.spec.encodings[e], data.shape);
    const Site site = traits(data.spec.encodings[e]).site;
    if (infos.empty() || site == Site::kInput) continue;
    bool found = false;
    for (std::size_t p = 0; p < infos.size(); ++p) {
      const auto& values = named(results, "d" + parameter_label(data.spec, e, p)).values;
      found |= std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
    }
    EXPECT_EQ(found, nan) << "gradients of " << traits(data.spec.encodings[e]).name;
  }
}

void expect_all(const AttentionData& data, const std::vector<Result>& results, const Rows& rows) {
  expect_rows(results, "out", rows.out);
  if (!has_backward(data.c)) return;
  expect_rows(results, "dq", rows.dq);
  expect_rows(results, "dk", rows.dk);
  expect_rows(results, "dv", rows.dv);
  expect_parameters(data, results, rows.any);
}

template <class AnyProblem>
void check(const Case& c, const Poison& poison) {
  AnyProblem problem(c);
  apply(poison, problem.data);
  SCOPED_TRACE(name_of(c) + ": " + kInputNames[static_cast<std::size_t>(poison.input)] + " token " +
               std::to_string(poison.token) + " of head " + std::to_string(poison.head));
  const Rows rows = predict(problem.data, poison);
  const bool with_backward = has_backward(c);
  problem.forward();
  if (with_backward) problem.backward();
  {
    SCOPED_TRACE("kernel");
    expect_all(problem.data, problem.results(with_backward), rows);
  }
  SCOPED_TRACE("reference");
  expect_all(problem.data, problem.expected(with_backward), rows);
}

bool poisons_gates(const AttentionData& data, const Poison& poison) {
  return poison.input == Input::kOfEncoding && is_gate(data.token_inputs.at(0).info);
}

// A gate that is NaN is an error, unless its token is hidden.
template <class AnyProblem>
void check_gate(const Case& c, const Poison& poison) {
  AnyProblem problem(c);
  apply(poison, problem.data);
  const auto key = static_cast<std::size_t>(poison.batch * c.keys + poison.token);
  const bool hidden = problem.data.key_mask[key] == 0;
  const auto refusal_of = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string message =
      "[attention] " + problem.data.token_inputs[0].info.name +
      " must be at most 0 but got NaN at batch entry " + std::to_string(poison.batch) + ", head " +
      std::to_string(poison.head) + ", token " + std::to_string(poison.token) + ";";
  SCOPED_TRACE(name_of(c) + ": " + message);
  for (const std::string& found : {refusal_of([&] { problem.forward(); }), refusal_of([&] {
                                     static_cast<void>(problem.expected(false));
                                   })}) {
    if (hidden) {
      EXPECT_EQ(found, "");
    } else {
      EXPECT_NE(found.find(message), std::string::npos) << found;
    }
  }
}

template <class AnyProblem>
void check_case(const Case& c, Rng& rng) {
  if (c.batch == 0 || c.queries == 0 || c.keys == 0) return;
  AttentionData data(c);
  for (const Input input : kInputs) {
    if (input == Input::kOfEncoding && data.inputs.empty()) continue;
    Poison poison{input, 0, 0, 0, NAN};
    const TensorView view = tensor_of(data, input).view();
    poison.batch = rng.integer(0, c.batch - 1);
    poison.head = rng.integer(0, view.heads() - 1);
    poison.token = rng.integer(0, view.tokens() - 1);
    if (poisons_gates(data, poison)) {
      check_gate<AnyProblem>(c, poison);
      // A gate of 0 makes a sum that no difference brings back; a product with it is 0.
      if (is_chain(data.spec.encodings[data.token_inputs[0].encoding])) continue;
      poison.value = -INFINITY;
    }
    check<AnyProblem>(c, poison);
    if (::testing::Test::HasFailure()) return;
  }
}

// Every `step`-th row of the table; settings repeat every 9, 8 or 11, and 10 rows, and no step has a divisor in
// common with these but for attention.
template <class AnyProblem>
void check_table(Operation op, std::size_t step) {
  Rng rng(5);
  const std::vector<Case> all = checked_cases(op);
  if (testing::kSanitized) step *= 17;
  for (std::size_t i = 0; i < all.size() && !::testing::Test::HasFailure(); i += step) {
    if (all[i].page == 0) check_case<AnyProblem>(all[i], rng);  // pages keep what they were made of
  }
}

TEST(NonFinite, AttentionRowsAreNaNExactlyWhereTheySeeOne) {
  check_table<AttentionProblem>(Operation::kAttention, 2);
}

TEST(NonFinite, DecodedRowsAreNaNExactlyWhereTheySeeOne) {
  check_table<AttentionProblem>(Operation::kDecode, 5);
}

TEST(NonFinite, LinearAttentionRowsAreNaNExactlyWhereTheySeeOne) {
  check_table<LinearAttentionProblem>(Operation::kLinearAttention, 3);
}

TEST(NonFinite, EverySimdTargetKeepsThem) {
  testing::for_each_simd_target([] {
    check_table<AttentionProblem>(Operation::kAttention, 29);
    check_table<AttentionProblem>(Operation::kDecode, 13);
    check_table<LinearAttentionProblem>(Operation::kLinearAttention, 29);
  });
}

}  // namespace
}  // namespace posenc::cases
