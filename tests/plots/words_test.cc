// Toy inputs: CoPE's positions, and the scores of sentences under any composition.
#include "plots/words.h"

#include <cmath>

#include "cases/table.h"
#include "plots/figures.h"
#include "plots/inputs.h"
#include "plots/score_parts.h"
#include "support/random_spec.h"
#include "support/sanitizers.h"

namespace posenc {
namespace {

using plots::plot;
using plots::PlotRequest;
using testing::cell;
using testing::panel_of;
using testing::request_of;

TEST(PlotWords, PunctuationMarksAreWordsAndEqualWordsHaveEqualVectors) {
  EXPECT_EQ(plots::split_words(" The cat, sat.\tNo "),
            (std::vector<std::string>{"The", "cat", ",", "sat", ".", "No"}));
  PlotRequest request;
  const auto cat = plots::word_vector(request, "cat");
  EXPECT_EQ(cat, plots::word_vector(request, "cat"));
  EXPECT_NE(cat, plots::word_vector(request, "dog"));
  EXPECT_NEAR(plots::dot(cat, cat), 1.0, 1e-12);
  request.seed = 1;
  EXPECT_NE(cat, plots::word_vector(request, "cat"));
}

TEST(PlotCope, AllGatesOpenGiveTheDistancePlusOne) {
  PlotRequest request = request_of("cope");
  request.text = {"a b c d e f"};
  request.gates = std::vector<double>(6, 60.0);  // sigmoid is 1 to the last bit
  const draw::Figure figure = plot(request);
  const draw::Panel& positions = panel_of(figure, "positions p_{ij}");
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < 6; ++j) {
      const double value = cell(positions, i, j);
      if (j > i) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, static_cast<double>(i - j + 1));
      }
    }
  }
}

TEST(PlotCope, PositionsAreSumsOfGatesAndStopAtTheTable) {
  PlotRequest request = request_of("cope", {"cope(npos_max=3)"});
  request.text = {"a b c d e"};
  request.gates = {2.0, -1.0, 0.5, 3.0, 0.0};
  const draw::Figure figure = plot(request);
  const draw::Panel& gates = panel_of(figure, "gates g_{ij}");
  const draw::Panel& positions = panel_of(figure, "positions p_{ij}");
  const draw::Curve& stairs = panel_of(figure, "positions that the last query sees").curves[0];
  for (std::int64_t i = 0; i < 5; ++i) {
    double sum = 0.0;
    for (std::int64_t j = i; j >= 0; --j) {
      const double gate = 1.0 / (1.0 + std::exp(-request.gates[static_cast<std::size_t>(j)]));
      sum += gate;
      EXPECT_NEAR(cell(gates, i, j), gate, 1e-6);
      EXPECT_NEAR(cell(positions, i, j), std::min(sum, 2.0), 1e-6);
      if (i < 4) continue;
      EXPECT_NEAR(stairs.y[static_cast<std::size_t>(j)], std::min(sum, 2.0), 1e-12);
    }
  }
}

TEST(PlotCope, GatesOpenOnTheChosenWordsAlone) {
  PlotRequest request = request_of("cope");
  request.text = {"one . two . three four"};
  request.gate_words = {".", "four"};
  const draw::Figure figure = plot(request);
  const draw::Panel& gates = panel_of(figure, "gates g_{ij}");
  const std::vector<bool> open = {false, true, false, true, false, true};
  for (std::int64_t j = 0; j < 6; ++j) {
    const double gate = cell(gates, 5, j);
    EXPECT_TRUE(open[static_cast<std::size_t>(j)] ? gate > 0.9 : gate < 0.3) << j << " " << gate;
  }
  EXPECT_EQ(cell(gates, 5, 1), cell(gates, 5, 3));
}

// raw + bias + content, bounded and softmaxed here with the sinks, must be the weights of the library's reference.
void expect_parts_make_weights(const PlotRequest& request, const Spec& spec) {
  const bool stick =
      std::any_of(spec.encodings.begin(), spec.encodings.end(),
                  [](const Encoding& e) { return std::holds_alternative<StickBreaking>(e); });
  if (stick) return;  // no softmax
  const plots::Words words = plots::read_words(request);
  const plots::ScoreParts parts = plots::score_parts(request, spec, words);
  const auto n = static_cast<std::int64_t>(words.tokens.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t seen = request.causal ? i + 1 : n;
    std::vector<double> score;
    double largest = -HUGE_VAL;
    for (std::int64_t j = 0; j < seen; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      score.push_back(parts.raw[at] + parts.bias[at] + parts.content[at]);
      for (const Encoding& encoding : spec.encodings) {
        const auto* softcap = std::get_if<Softcap>(&encoding);
        if (softcap != nullptr) score.back() = softcap->value(score.back());
      }
      largest = std::max(largest, score.back());
    }
    if (!std::isfinite(largest)) continue;  // xPos with a centre so far away that powers overflow
    double sum = 0.0;
    for (const double s : score) sum += std::exp(s - largest);
    for (const Encoding& encoding : spec.encodings) {
      const auto* sink = std::get_if<Sink>(&encoding);
      if (sink != nullptr) sum += std::exp(sink->init - largest);
    }
    for (std::int64_t j = 0; j < n; ++j) {
      const double want =
          j < seen ? std::exp(score[static_cast<std::size_t>(j)] - largest) / sum : 0.0;
      ASSERT_NEAR(parts.weight[static_cast<std::size_t>(i * n + j)], want, 1e-9)
          << to_text(spec) << " at " << i << ", " << j;
    }
  }
}

constexpr const char* kScaled =
    "rope(schedule=yarn(factor=8, original_max_position_embeddings=4, mscale_all_dim=1, "
    "softmax_mscale=true)) + cope(gate_source=value)";

TEST(PlotScores, PartsMakeTheWeightsOfTheReference) {
  PlotRequest request = request_of("scores");
  request.heads = 4;
  request.head = 3;
  for (const bool causal : {true, false}) {
    request.causal = causal;
    for (const char* text :
         {"none", "rope", "rope + alibi", "sinusoidal + t5", "xpos + kerple + cope",
          "rope(theta=[100, 10000]) + rope(layout=interleaved)", "learned + fire + relative",
          "alibi + cope(gates_see_bias=true, logit_scale=sqrt_dim)", "cope(gate_source=value)",
          "rope + cope(gate_source=separate, variant=alibi)", kScaled}) {
      expect_parts_make_weights(request, parse_spec(text));
    }
  }
  request.causal = true;
  for (const char* text : {"path", "path + fox + alibi", "wall + sink"}) {
    expect_parts_make_weights(request, parse_spec(text));
  }
}

// Inputs of any width: angles of pairs, a few numbers for a table or a path, one number, rows as wide as a head.
TEST(PlotScores, EveryEncodingOfTheCatalogue) {
  const std::vector<std::string> specs = cases::with_every_encoding(
      {"rope", "rope(angles=input)", "rope(angles=input, running=true, rotary_dim=2)",
       "rope(angles=input_position)", "relative_query(source=input)",
       "relative_query(source=input, rank=3)", "cope(gate_source=separate)", "grape_ap(rank=1)",
       "grape_ap(rank=2, separate=true)", "sinusoidal", "learned"});
  for (const std::int64_t head_dim : {8, 16}) {
    PlotRequest request = request_of("scores");
    request.head_dim = head_dim;
    request.heads = 4;
    for (const std::string& spec : specs) {
      SCOPED_TRACE(spec);
      request.encodings = {spec};
      EXPECT_EQ(testing::refusal(request), "");
      for (const draw::Panel& panel : plot(request).panels) {
        ASSERT_TRUE(std::isfinite(cell(panel, 3, 1))) << panel.title;
      }
      expect_parts_make_weights(request, parse_spec(spec));
    }
  }
}

TEST(PlotScores, RandomCompositionsToo) {
  PlotRequest request = request_of("scores");
  request.head_dim = 16;
  request.heads = 4;
  constexpr int kTrials = testing::kSanitized ? 30 : 150;
  Rng rng(3);
  int drawn = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Spec spec = testing::random_spec(rng);
    spec.encodings.emplace_back(testing::random_rope(rng, {.head_dim = 16, .heads = 4}));
    request.head = rng.integer(0, 3);
    request.encodings = {to_text(spec)};
    if (!testing::refusal(request).empty()) continue;  // does not fit the shape, and says so
    expect_parts_make_weights(request, spec);
    ++drawn;
  }
  EXPECT_GT(drawn, kTrials / 10);
}

TEST(PlotScores, MapsAreThePartsAndEqualWordsMatch) {
  PlotRequest request = request_of("scores", {"alibi"});
  request.text = {"a b a"};
  request.match_score = 3.0;
  request.heads = 8;
  const draw::Figure figure = plot(request);
  EXPECT_NEAR(cell(figure.panels[0], 2, 0), 3.0, 1e-6);
  EXPECT_NEAR(cell(figure.panels[0], 2, 2), 3.0, 1e-6);
  EXPECT_NEAR(cell(figure.panels[1], 2, 0), -1.0, 1e-6);  // two tokens at slope 1/2
  EXPECT_NEAR(cell(figure.panels[2], 2, 0), 2.0, 1e-6);
  EXPECT_TRUE(std::isnan(cell(figure.panels[3], 0, 1)));
  const double sum =
      cell(figure.panels[3], 2, 0) + cell(figure.panels[3], 2, 1) + cell(figure.panels[3], 2, 2);
  EXPECT_NEAR(sum, 1.0, 1e-6);
  EXPECT_EQ(figure.panels[0].x.words, (std::vector<std::string>{"a", "b", "a"}));
}

}  // namespace
}  // namespace posenc
