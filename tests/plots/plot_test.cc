// Every kind: drawn with its defaults, with random requests, and refused with a line that helps.
#include "plots/plot.h"

#include <cmath>
#include <set>

#include "core/bind.h"
#include "draw/files.h"
#include "draw/formula.h"
#include "plots/figures.h"
#include "support/random_spec.h"
#include "support/sanitizers.h"

namespace posenc {
namespace {

using plots::KindInfo;
using plots::plot;
using plots::PlotRequest;
using testing::refusal;
using testing::request_of;

void expect_readable(const draw::Figure& figure, const std::string& what) {
  draw::validate(figure);
  EXPECT_FALSE(figure.title.empty()) << what;
  EXPECT_GT(figure.caption.size(), 40U) << what;
  EXPECT_FALSE(figure.panels.empty()) << what;
  for (const draw::Panel& panel : figure.panels) {
    if (!panel.clocks.empty()) continue;
    EXPECT_FALSE(panel.x.label.empty() || panel.y.label.empty()) << what << ": " << panel.title;
    EXPECT_TRUE(panel.map || !panel.curves.empty()) << what << ": " << panel.title;
    EXPECT_FALSE(panel.map && panel.map->label.empty()) << what;
  }
}

TEST(Plots, EveryKindDrawsItsDefaultsTheSameTwice) {
  EXPECT_GE(plots::plot_kinds().size(), 14U);
  for (const KindInfo& kind : plots::plot_kinds()) {
    const draw::Figure figure = plot(kind.defaults);
    expect_readable(figure, std::string(kind.name));
    EXPECT_EQ(draw::to_csv(figure), draw::to_csv(plot(kind.defaults))) << kind.name;
  }
}

TEST(Plots, KindsNameFieldsThatExistAndExamplesThatNameThem) {
  std::set<std::string> fields;
  for (const FieldDoc& doc : describe_fields<PlotRequest>()) {
    fields.insert(doc.name);
    EXPECT_FALSE(doc.doc.empty()) << doc.name;
  }
  std::set<std::string_view> read = {"kind"};
  for (const KindInfo& kind : plots::plot_kinds()) {
    for (const std::string_view field : kind.fields) {
      EXPECT_TRUE(fields.contains(std::string(field))) << kind.name << " " << field;
      read.insert(field);
    }
    EXPECT_EQ(kind.defaults.kind, kind.name);
    EXPECT_NE(kind.example.find("posenc plot " + std::string(kind.name)), std::string_view::npos);
  }
  EXPECT_EQ(read.size(), fields.size()) << "a field that no kind reads";
}

// Any spec with any shape: a figure, or an Error; nothing else, and never a figure that is not valid.
TEST(Plots, RandomRequestsAreDrawnOrRefused) {
  constexpr int kTrials = testing::kSanitized ? 60 : 400;
  Rng rng(11);
  int drawn = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto& kinds = plots::plot_kinds();
    const auto last = static_cast<std::int64_t>(kinds.size()) - 1;
    PlotRequest request = kinds[static_cast<std::size_t>(rng.integer(0, last))].defaults;
    request.head_dim = rng.integer(1, 24);
    request.heads = rng.integer(1, 6);
    request.head = rng.integer(0, request.heads - 1);
    request.length = rng.integer(2, 40);
    request.train_length = rng.integer(1, 60);
    request.content = static_cast<plots::Content>(rng.integer(0, 1));
    request.causal = rng.uniform() < 0.5;
    request.perplexity = rng.uniform(2.0, 12.0);
    request.iterations = 50;
    request.samples = rng.integer(1, 5);
    request.seed = rng.integer(0, 1000);
    if (rng.uniform() < 0.6) request.encodings = {to_text(testing::random_spec(rng))};
    if (rng.uniform() < 0.3) request.pairs = {rng.integer(0, 12)};
    if (rng.uniform() < 0.3) request.positions = {rng.integer(0, 50), rng.integer(0, 50)};
    try {
      expect_readable(plot(request), request.kind);
      ++drawn;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(drawn, kTrials / 5);
}

struct Refused {
  PlotRequest request;
  const char* says;
};

PlotRequest changed(const std::string& kind, void (*change)(PlotRequest&)) {
  PlotRequest request = request_of(kind);
  change(request);
  return request;
}

TEST(Plots, BadRequestsAreRefusedWithTheFieldTheValueAndWhatToDo) {
  PlotRequest unknown;
  unknown.kind = "decays";
  const std::vector<Refused> cases = {
      {unknown, "kind must be a known kind of plot but got 'decays'; did you mean 'decay'?"},
      {request_of("clocks", {"alibi"}),
       "encodings must rotate for clocks but got 'alibi'; take rope"},
      {request_of("clocks", {"rope + alibi"}), "must name a single encoding"},
      {request_of("clocks", {"none"}), "must name a single encoding for clocks but got 'none'"},
      {request_of("decay", {"none"}), "must name a single encoding for decay but got 'none'"},
      {request_of("decay", {"xpos"}), "must be rope for decay but got 'xpos'"},
      {request_of("sinusoidal", {"rope"}), "must be sinusoidal"},
      {request_of("bias", {"rope"}), "must add a bias to scores for bias but got 'rope'"},
      {request_of("bias", {"none"}), "must add a bias to scores for bias but got 'none'"},
      {request_of("cope", {"rope + cope"}), "must name a single encoding"},
      {request_of("pca", {"alibi"}), "must give positions vectors for pca but got 'alibi'"},
      {request_of("extrapolation", {"learned"}), "must have frequencies"},
      {request_of("similarity", {"rop"}), "did you mean 'rope'?"},
      {request_of("similarity", {"learned(max_positions=1000000000)"}), "take a smaller table"},
      {request_of("similarity", {"learned(max_positions=16)"}), "position"},
      {changed("inner-product", [](PlotRequest& r) { r.length = 5000; }),
       "length must be at most 1024 for inner-product but got 5000"},
      {changed("inner-product", [](PlotRequest& r) { r.length = 1; }), "length must be in [2"},
      {changed("bias", [](PlotRequest& r) { r.head = 8; }),
       "head must be below heads (8) but got 8"},
      {changed("clocks", [](PlotRequest& r) { r.pairs = {32}; }), "pairs must be in [0, 31]"},
      {changed("clocks", [](PlotRequest& r) { r.head_dim = 7; }), "head_dim must be even"},
      {changed("tsne", [](PlotRequest& r) { r.perplexity = 43; }),
       "perplexity must be below a third of the 128 positions but got 43"},
      {changed("tsne", [](PlotRequest& r) { r.encodings = {}; }), "must be 1 to 4 specs"},
      {changed("scores", [](PlotRequest& r) { r.text = {"one"}; }), "text must have 2 to 48 words"},
      {changed("cope", [](PlotRequest& r) { r.gates = {1.0}; }),
       "gates must have one logit per word"},
      {changed("cope", [](PlotRequest& r) { r.gate_words = {"!"}; }), "must be words of the text"},
      {changed("cope", [](PlotRequest& r) { r.gate_strength = NAN; }), "gate_strength"},
      {changed("decay", [](PlotRequest& r) { r.theta = {0.5}; }), "theta"},
      {changed("decay", [](PlotRequest& r) { r.theta.assign(8, 100.0); }), "at most 7 curves"},
  };
  for (const Refused& test_case : cases) {
    const std::string message = refusal(test_case.request);
    EXPECT_NE(message.find(test_case.says), std::string::npos)
        << test_case.request.kind << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Plots, RequestsAreReadOverTheDefaultsOfTheirKind) {
  const Value map = parse_json(R"({"kind": "decay", "theta": [100, 1e6], "head_dim": 32})", "plot");
  const PlotRequest request = plots::read_request(map);
  EXPECT_EQ(request.theta, (std::vector<double>{100.0, 1e6}));
  EXPECT_EQ(request.head_dim, 32);
  EXPECT_EQ(request.length, plots::default_request("decay").length);
  const auto message = [](const char* json) -> std::string {
    try {
      static_cast<void>(plots::read_request(parse_json(json, "plot")));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(R"({"kind": "decay", "perplexity": 5})").find("is not read by decay; it reads"),
            std::string::npos);
  EXPECT_NE(message(R"({"kind": "decay", "thta": 5})").find("did you mean 'theta'?"),
            std::string::npos);
  EXPECT_NE(message(R"({"theta": 5})").find("kind is required"), std::string::npos);
  EXPECT_NE(message("[]").find("takes named arguments"), std::string::npos);
}

TEST(Plots, LegendsTellSchedulesApartInFewWords) {
  const draw::Figure figure = plot(
      request_of("wavelengths", {"rope", "rope(theta=500000)", "rope(schedule=linear(factor=2))",
                                 "rope(schedule=linear(factor=2), layout=interleaved)"}));
  std::vector<std::string> names;
  for (const draw::Curve& curve : figure.panels[0].curves) names.push_back(curve.name);
  EXPECT_EQ(names, (std::vector<std::string>{"rope", "rope, θ = 500000", "rope, linear ×2",
                                             "rope(layout=interleaved), linear ×2"}));
}

TEST(Plots, EqualSpecsAreDrawnApart) {
  const draw::Figure figure = plot(request_of("similarity", {"rope", "xpos", "rope"}));
  std::vector<std::string> names;
  for (const draw::Curve& curve : figure.panels[0].curves) names.push_back(curve.name);
  EXPECT_EQ(names, (std::vector<std::string>{"rope", "xpos", "rope (2)"}));
  EXPECT_EQ(figure.panels[0].curves[0].y, figure.panels[0].curves[2].y);
  EXPECT_NE(figure.panels[0].curves[0].color, figure.panels[0].curves[2].color);
}

// A formula in ASCII would show as such: set ones have small letters and Greek ones.
TEST(Plots, FormulasInCaptionsAreSet) {
  std::vector<std::string> texts;
  for (const KindInfo& kind : plots::plot_kinds()) {
    texts.push_back(draw::plain_formula(plot(kind.defaults).caption));
  }
  for (const CatalogEntry& entry : encoding_catalog()) {
    texts.push_back(draw::plain_formula(draw::typeset(entry.traits.formula)));
  }
  for (const std::string& text : texts) {
    for (const char* raw : {"SUM", "PROD", "sigmoid", "sqrt", "2 pi", "theta^", "_ij", "_{", "^{",
                            "->", "..", "inv_freq"}) {
      EXPECT_EQ(text.find(raw), std::string::npos) << raw << " in: " << text;
    }
  }
}

// A map of values on one side of 0 uses all colours of a scale without a middle.
TEST(Plots, MapsUseTheirColours) {
  const draw::Figure figure = plot(request_of("bias"));
  for (const draw::Panel& panel : figure.panels) {
    const draw::Range shown = draw::shown_range(*panel.map);
    const bool signs = shown.low < 0 && shown.high > 0;
    EXPECT_EQ(panel.map->map == draw::ColorMap::kDiverging, signs) << panel.title;
    EXPECT_TRUE(draw::has_masked(*panel.map));
    EXPECT_NE(panel.map->masked.find("key after the query"), std::string::npos);
  }
}

TEST(Plots, AnglesFromAnInputAreNoneToDraw) {
  for (const char* kind : {"clocks", "inner-product", "similarity", "decay", "wavelengths", "pca",
                           "tsne", "extrapolation"}) {
    const std::string angles = refusal(request_of(kind, {"rope(angles=input)"}));
    EXPECT_NE(angles.find("its angles come from an input, rope.angles"), std::string::npos)
        << kind << ": " << angles;
    const std::string positions = refusal(request_of(kind, {"rope(angles=input_position)"}));
    EXPECT_NE(positions.find("its positions come from an input, rope.position"), std::string::npos)
        << kind << ": " << positions;
  }
}

}  // namespace
}  // namespace posenc
