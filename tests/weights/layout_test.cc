// Conversion between the pairings: scores stay what they were, and there and back is the same file.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "posenc/core/error.h"
#include "posenc/encodings/rotary.h"
#include "posenc/weights/convert.h"
#include "support/checkpoint_case.h"
#include "weights/layout_plan.h"

namespace posenc::weights {
namespace {

using testing::double_tensor;
using testing::doubles;
using testing::file_content;
using testing::OwnedTensor;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::write_tensors;

constexpr std::int64_t kInputs = 5;
constexpr std::int64_t kTokens = 4;

enum class Kind { kSeparate, kConcat, kGrouped };

struct Case {
  Kind kind = Kind::kSeparate;
  HeadShape heads;
};

std::vector<double> random_values(std::int64_t count, Rng& rng) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& x : values) x = rng.normal();
  return values;
}

// A layer of attention with biases and, for separate projections, norms over q and k.
std::vector<OwnedTensor> layer(const Case& c, Rng& rng) {
  const auto [d, h, k, rotary, offset] = c.heads;
  std::vector<OwnedTensor> tensors;
  const auto add = [&](const std::string& name, std::int64_t rows, bool matrix) {
    const Shape shape = matrix ? Shape{rows, kInputs} : Shape{rows};
    const auto values = random_values(matrix ? rows * kInputs : rows, rng);
    tensors.push_back(double_tensor("layers.0." + name, shape, values));
  };
  add("mlp.weight", 7, true);
  if (c.kind == Kind::kSeparate) {
    for (const auto& [name, rows] : {std::pair{"q", h * d}, {"k", k * d}, {"v", k * d}}) {
      add(std::string("self_attn.") + name + "_proj.weight", rows, true);
      add(std::string("self_attn.") + name + "_proj.bias", rows, false);
    }
    add("self_attn.q_norm.weight", d, false);
    add("self_attn.k_norm.weight", k * d, false);
    return tensors;
  }
  const std::string name =
      c.kind == Kind::kConcat ? "self_attn.qkv_proj" : "attention.query_key_value";
  add(name + ".weight", (h + 2 * k) * d, true);
  add(name + ".bias", (h + 2 * k) * d, false);
  return tensors;
}

using Heads = std::vector<std::vector<double>>;  // [head][head_dim]

// Where the heads of q, k and v start among the rows of a fused projection.
std::array<std::vector<std::int64_t>, 3> fused_rows(const Case& c) {
  const auto [d, h, k, rotary, offset] = c.heads;
  std::array<std::vector<std::int64_t>, 3> starts;
  const std::int64_t group = h / k + 2;
  for (std::int64_t head = 0; head < h; ++head) {
    const bool concat = c.kind == Kind::kConcat;
    starts[0].push_back(d * (concat ? head : head / (h / k) * group + head % (h / k)));
  }
  for (std::int64_t head = 0; head < k; ++head) {
    const bool concat = c.kind == Kind::kConcat;
    starts[1].push_back(d * (concat ? h + head : head * group + group - 2));
    starts[2].push_back(d * (concat ? h + k + head : head * group + group - 1));
  }
  return starts;
}

// Heads of q, k and v of one token, before any rotation.
std::array<Heads, 3> project(const Reader& reader, const Case& c, const std::vector<double>& x) {
  const auto apply = [&](const std::string& name) {
    const auto w = doubles(reader.read(reader.at("layers.0." + name + ".weight")));
    auto y = doubles(reader.read(reader.at("layers.0." + name + ".bias")));
    for (std::size_t r = 0; r < y.size(); ++r) {
      y[r] = std::inner_product(x.begin(), x.end(), w.begin() + r * kInputs, y[r]);
    }
    return y;
  };
  const auto d = static_cast<std::size_t>(c.heads.head_dim);
  const auto cut = [&](const std::vector<double>& y, std::size_t at) {
    return std::vector<double>(y.begin() + at, y.begin() + at + d);
  };
  std::array<Heads, 3> all;
  if (c.kind != Kind::kSeparate) {
    const auto y =
        apply(c.kind == Kind::kConcat ? "self_attn.qkv_proj" : "attention.query_key_value");
    const auto starts = fused_rows(c);
    for (std::size_t i = 0; i < 3; ++i) {
      for (const std::int64_t at : starts[i]) all[i].push_back(cut(y, at));
    }
    return all;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    auto y = apply(std::string("self_attn.") + "qkv"[i] + "_proj");
    if (i < 2) {
      const auto norm = doubles(reader.read(reader.at(
          i == 0 ? "layers.0.self_attn.q_norm.weight" : "layers.0.self_attn.k_norm.weight")));
      for (std::size_t r = 0; r < y.size(); ++r) y[r] *= norm[r % norm.size()];
    }
    for (std::size_t at = 0; at < y.size(); at += d) all[i].push_back(cut(y, at));
  }
  return all;
}

struct Outcome {
  std::vector<double> scores;  // of every head, query and key
  std::vector<double> values;
};

Outcome run(const std::string& path, const Case& c, PairLayout layout) {
  const Reader reader(path);
  Rope rope;
  rope.layout = layout;
  rope.rotary_dim = c.heads.rotary_dim;
  rope.dim_offset = c.heads.dim_offset;
  const ModelShape shape{.head_dim = c.heads.head_dim, .heads = c.heads.heads, .model_dim = 0};
  const Rotary rotary = make_rotary(rope, shape, Lengths{64, 64});
  Rng rng(77);
  std::vector<std::array<Heads, 3>> tokens;
  Outcome outcome;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    tokens.push_back(project(reader, c, random_values(kInputs, rng)));
    std::vector<double> cos(static_cast<std::size_t>(rotary.pairs()));
    std::vector<double> sin(cos.size());
    const std::int64_t position = 3 * t + 1;
    rotary_row(rotary, Role::kQuery, 0, std::span(&position, 1), cos, sin);
    for (auto& head : tokens.back()[0]) rotate(rotary, cos, sin, head);
    for (auto& head : tokens.back()[1]) rotate(rotary, cos, sin, head);
    for (const auto& head : tokens.back()[2]) {
      outcome.values.insert(outcome.values.end(), head.begin(), head.end());
    }
  }
  const std::int64_t group = c.heads.heads / c.heads.kv_heads;
  for (const auto& qi : tokens) {
    for (const auto& kj : tokens) {
      for (std::int64_t h = 0; h < c.heads.heads; ++h) {
        const auto& q = qi[0][static_cast<std::size_t>(h)];
        const auto& k = kj[1][static_cast<std::size_t>(h / group)];
        outcome.scores.push_back(std::inner_product(q.begin(), q.end(), k.begin(), 0.0));
      }
    }
  }
  return outcome;
}

double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double gap = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) gap = std::max(gap, std::abs(a[i] - b[i]));
  return gap;
}

constexpr PairLayout kBoth[] = {PairLayout::kHalf, PairLayout::kInterleaved};

const std::vector<HeadShape>& shapes() {
  static const std::vector<HeadShape> all = {
      {8, 4, 4, 8, 0}, {8, 4, 2, 8, 0},  {8, 6, 2, 4, 0},
      {8, 4, 1, 4, 4}, {10, 2, 2, 6, 2}, {2, 3, 1, 2, 0},
  };
  return all;
}

TEST(Layout, ScoresStayWhatTheyWere) {
  const TemporaryFolder folder;
  Rng rng(5);
  for (const Kind kind : {Kind::kSeparate, Kind::kConcat, Kind::kGrouped}) {
    for (const HeadShape& heads : shapes()) {
      for (const PairLayout to : kBoth) {
        const PairLayout from = kBoth[to == PairLayout::kHalf ? 1 : 0];
        const Case c{kind, heads};
        write_tensors(folder / "in", layer(c, rng));
        convert_layout(folder / "in", folder / "out", {.to = to, .heads = heads}, {.force = true});
        const Outcome before = run(folder / "in", c, from);
        const Outcome after = run(folder / "out", c, to);
        EXPECT_LT(largest_gap(before.scores, after.scores), 1e-12);
        EXPECT_EQ(before.values, after.values) << "v does not turn";
        if (heads.rotary_dim > 2) {
          EXPECT_GT(largest_gap(before.scores, run(folder / "in", c, to).scores), 1e-3)
              << "the pairings differ on the same weights, or this test says nothing";
        }
      }
    }
  }
}

TEST(Layout, HeadDimFollowsFromTheNumberOfHeads) {
  const TemporaryFolder folder;
  Rng rng(6);
  for (const Kind kind : {Kind::kSeparate, Kind::kConcat, Kind::kGrouped}) {
    const Case c{kind, {8, 4, 2, 8, 0}};
    write_tensors(folder / "in", layer(c, rng));
    const auto report = convert_layout(folder / "in", "", {.heads = {.heads = 4, .kv_heads = 2}},
                                       {.in_place = true, .dry_run = true});
    EXPECT_EQ(report.heads, c.heads);
  }
}

TEST(Layout, ThereAndBackIsTheSameFile) {
  const TemporaryFolder folder;
  Rng rng(7);
  for (const ElementType type : {ElementType::kF64, ElementType::kF32, ElementType::kF16,
                                 ElementType::kBf16, ElementType::kF8E4M3, ElementType::kI8}) {
    write_tensors(folder / "in",
                  {random_tensor("h.0.attn.q_proj.weight", type, {32, 6}, rng),
                   random_tensor("h.0.attn.q_proj.bias", type, {32}, rng),
                   random_tensor("h.0.attn.k_proj.weight", type, {16, 6}, rng),
                   random_tensor("h.0.mlp.weight", type, {3, 3, 3}, rng)},
                  {{"format", "pt"}});
    const LayoutOptions there{.to = PairLayout::kInterleaved, .heads = {.head_dim = 8}};
    const LayoutOptions back{.to = PairLayout::kHalf, .heads = {.head_dim = 8}};
    convert_layout(folder / "in", folder / "there", there, {.force = true});
    convert_layout(folder / "there", folder / "back", back, {.force = true});
    EXPECT_NE(file_content(folder / "there"), file_content(folder / "in"));
    EXPECT_EQ(file_content(folder / "back"), file_content(folder / "in"));
    EXPECT_EQ(*find_metadata(Reader(folder / "there").metadata(), kLayoutMark),
              "half->interleaved");
  }
}

TEST(Layout, RowsMoveAsTheFormulaSays) {
  const HeadShape heads{8, 1, 1, 6, 1};
  EXPECT_EQ(head_rows(heads, PairLayout::kHalf, PairLayout::kInterleaved),
            (std::vector<std::uint32_t>{0, 1, 4, 2, 5, 3, 6, 7}));
  EXPECT_EQ(head_rows(heads, PairLayout::kInterleaved, PairLayout::kHalf),
            (std::vector<std::uint32_t>{0, 1, 3, 5, 2, 4, 6, 7}));
}

// A row wider than the pieces that files are copied in, and heads that do not fit into one.
TEST(Layout, WideRowsAreCopiedInPieces) {
  const TemporaryFolder folder;
  Rng rng(8);
  const std::int64_t wide = (4 << 20) / 2 + 3;
  OwnedTensor q{{"q_proj.weight", ElementType::kU8, {4, wide}}, {}};
  for (std::int64_t r = 0; r < 4; ++r) {
    q.bytes.insert(q.bytes.end(), static_cast<std::size_t>(wide), static_cast<std::byte>(r));
  }
  write_tensors(folder / "in", {q, random_tensor("k_proj.weight", ElementType::kU8, {4, 1}, rng)});
  convert_layout(folder / "in", folder / "out", {.heads = {.head_dim = 4}});
  const Reader reader(folder / "out");
  const auto bytes = reader.read(reader.at("q_proj.weight"));
  for (std::int64_t r = 0; r < 4; ++r) {
    const auto wanted = static_cast<std::byte>(std::array{0, 2, 1, 3}[static_cast<std::size_t>(r)]);
    EXPECT_EQ(bytes[static_cast<std::size_t>(r * wide)], wanted);
    EXPECT_EQ(bytes[static_cast<std::size_t>((r + 1) * wide - 1)], wanted);
  }
}

// Pieces hold whole heads: here 4 MiB end in the middle of one.
TEST(Layout, PiecesEndWhereAHeadEnds) {
  const TemporaryFolder folder;
  Rng rng(9);
  const std::int64_t wide = 1001;
  const std::int64_t heads = (4 << 20) / (4 * wide) + 2;
  OwnedTensor q{{"q_proj.weight", ElementType::kU8, {4 * heads, wide}}, {}};
  for (std::int64_t row = 0; row < 4 * heads; ++row) {
    q.bytes.insert(q.bytes.end(), static_cast<std::size_t>(wide), static_cast<std::byte>(row % 4));
  }
  write_tensors(folder / "in", {q, random_tensor("k_proj.weight", ElementType::kU8, {4, 1}, rng)});
  convert_layout(folder / "in", folder / "out", {.heads = {.head_dim = 4}});
  const Reader reader(folder / "out");
  const auto bytes = reader.read(reader.at("q_proj.weight"));
  for (std::int64_t at = 0; at < 4 * heads * wide; ++at) {
    const auto row = static_cast<std::size_t>(at / wide % 4);
    ASSERT_EQ(bytes[static_cast<std::size_t>(at)],
              static_cast<std::byte>(std::array{0, 2, 1, 3}[row]))
        << at;
  }
}

TEST(Layout, LatentKeysTurnAtTheirEnd) {
  const TemporaryFolder folder;
  std::vector<double> rows(12);
  std::iota(rows.begin(), rows.end(), 0.0);
  write_tensors(folder / "in", {double_tensor("a.q_b_proj.weight", {12, 1}, rows),
                                double_tensor("a.kv_a_proj_with_mqa.weight", {12, 1}, rows),
                                double_tensor("a.kv_b_proj.weight", {12, 1}, rows)});
  convert_layout(folder / "in", folder / "out",
                 {.to = PairLayout::kHalf, .heads = {6, 2, 2, 4, 2}});
  const Reader reader(folder / "out");
  EXPECT_EQ(doubles(reader.read(reader.at("a.q_b_proj.weight"))),
            (std::vector<double>{0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11}));
  EXPECT_EQ(doubles(reader.read(reader.at("a.kv_a_proj_with_mqa.weight"))),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 11}));
  EXPECT_EQ(doubles(reader.read(reader.at("a.kv_b_proj.weight"))), rows);
}

}  // namespace
}  // namespace posenc::weights
