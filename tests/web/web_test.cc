#include "web/web.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "draw/colors.h"
#include "draw/files.h"
#include "plots/plot.h"
#include "posenc/encodings/spec.h"

namespace {

using Json = nlohmann::json;

struct Free {
  void operator()(posenc_web_figure* figure) const { posenc_web_free(figure); }
};
using Owned = std::unique_ptr<posenc_web_figure, Free>;

Owned plotted(const std::string& request) { return Owned(posenc_web_plot(request.c_str())); }
Json described(const Owned& figure) { return Json::parse(posenc_web_describe(figure.get())); }
std::string error_of(const std::string& request) {
  return described(plotted(request)).value("error", "");
}
Json spec(const std::string& text) { return Json::parse(posenc_web_spec(text.c_str())); }

template <class Number>
std::span<const Number> array_at(const Json& place) {
  const auto* data = reinterpret_cast<const Number*>(place.at("at").get<std::uintptr_t>());
  return {data, place.at("count").get<std::size_t>()};
}

TEST(Web, TheCatalogueHasEveryEncodingAndEveryPlot) {
  const Json catalog = Json::parse(posenc_web_catalog());
  ASSERT_EQ(catalog["encodings"].size(), posenc::encoding_catalog().size());
  ASSERT_EQ(catalog["schedules"].size(), posenc::schedule_catalog().size());
  ASSERT_EQ(catalog["plots"].size(), posenc::plots::plot_kinds().size());
  EXPECT_EQ(catalog["palette"]["dark"].size(), std::size_t{posenc::draw::kPaletteSize});
  for (const Json& kind : catalog["plots"]) {
    for (const Json& field : kind["fields"]) EXPECT_TRUE(kind["defaults"].contains(field)) << field;
  }
}

TEST(Web, FieldsSayWhatTheyAllowAndWhereTheirSlidersRun) {
  const Json catalog = Json::parse(posenc_web_catalog());
  std::map<std::string, Json> fields;
  for (const Json& entry : catalog["encodings"]) {
    for (const Json& field : entry["fields"]) {
      fields[entry["name"].get<std::string>() + "." + field["name"].get<std::string>()] = field;
    }
  }
  EXPECT_EQ(fields["rope.theta"]["min"], 1);
  EXPECT_EQ(fields["rope.theta"]["usual"], (Json{{"low", 100}, {"high", 1e7}, {"log", true}}));
  EXPECT_EQ(fields["rope.theta"]["advanced"], false);
  EXPECT_EQ(fields["rope.rotary_dim"]["even"], true);
  EXPECT_EQ(fields["xpos.center"]["advanced"], true);
  EXPECT_TRUE(fields["xpos.center"]["min"].is_null());
  EXPECT_TRUE(fields["softcap.cap"]["usual"].is_null());
}

TEST(Web, EveryPlotOfTheCatalogueIsDrawnFromItsDefaults) {
  for (const posenc::plots::KindInfo& kind : posenc::plots::plot_kinds()) {
    const Json figure = described(plotted(Json{{"kind", kind.name}}.dump()));
    EXPECT_EQ(figure.value("error", ""), "") << kind.name;
    EXPECT_FALSE(figure["panels"].empty()) << kind.name;
  }
}

TEST(Web, ArraysStayWhereTheFigureHasThem) {
  const Owned owned = plotted(R"({"kind": "bias", "encodings": ["alibi"], "length": 8})");
  posenc::plots::PlotRequest request = posenc::plots::default_request("bias");
  request.encodings = {"alibi"};
  request.length = 8;
  const posenc::draw::Figure figure = posenc::plots::plot(request);
  const Json panel = described(owned)["panels"][0];
  const auto values = array_at<float>(panel["map"]["values"]);
  const std::vector<float>& expected = figure.panels[0].map->values;
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(values[i] == expected[i] || (values[i] != values[i] && expected[i] != expected[i]));
  }
  EXPECT_EQ(posenc_web_csv(owned.get(), -1), posenc::draw::to_csv(figure));
}

TEST(Web, APanelsNumbersAreAPartOfTheFigures) {
  const Owned owned = plotted(R"({"kind": "decay", "length": 16})");
  const std::string all = posenc_web_csv(owned.get(), -1);
  std::string parts;
  for (int p = 0; p < 2; ++p) {
    const std::string one = posenc_web_csv(owned.get(), p);
    parts += one.substr(p == 0 ? 0 : one.find('\n') + 1);
  }
  EXPECT_EQ(parts, all);
  EXPECT_TRUE(Json::parse(posenc_web_csv(owned.get(), 99)).contains("error"));
}

TEST(Web, SpecsAreSpeltOutAndComeBack) {
  const Json rope = spec("rope( schedule = linear(factor=4) ) + alibi");
  EXPECT_EQ(rope["text"], "rope(schedule=linear(factor=4)) + alibi");
  EXPECT_EQ(rope["terms"][0]["fields"]["theta"], 10000);
  Json written = Json::array();
  for (const Json& term : rope["terms"]) {
    written.push_back({{term["name"].get<std::string>(), term["fields"]}});
  }
  EXPECT_EQ(spec(written.dump())["hash"], rope["hash"]);
  EXPECT_EQ(spec("\"none\"")["text"], "none");
  EXPECT_EQ(spec("- alibi\n- rope\n")["text"], "alibi + rope");
}

TEST(Web, MistakesAreOneLineOfJson) {
  EXPECT_EQ(spec("alibi(bias_max=0)")["error"],
            "[alibi] bias_max must be in (0, 64] but got 0 (line 1, column 16)");
  EXPECT_NE(error_of(R"({"kind": "decai"})").find("'decay'"), std::string::npos);
  EXPECT_NE(error_of(R"({"kind": "bias", "lenght": 3})").find("length"), std::string::npos);
  EXPECT_NE(error_of("{}").find("kind"), std::string::npos);
  for (const char* text : {"", "[", "{\"kind\": 3}", "\xff\xfe", "null", "[[[["}) {
    EXPECT_NE(error_of(text), "") << text;
    EXPECT_EQ(error_of(text).find('\n'), std::string::npos) << text;
  }
}

TEST(Web, AnEmptyListTakesAListOfDefaultsAway) {
  const Json own = described(plotted(R"({"kind": "decay", "theta": [], "length": 16})"));
  EXPECT_EQ(own.value("error", ""), "");
  EXPECT_EQ(own["panels"][0]["curves"].size(), 1U);
  const Json four = described(plotted(R"({"kind": "decay", "length": 16})"));
  EXPECT_EQ(four["panels"][0]["curves"].size(), 4U);
  EXPECT_NE(error_of(R"({"kind": "decay", "encodings": []})"), "");
}

TEST(Web, ColourTablesAreTheDrawingsOwn) {
  const std::uint8_t* bytes = posenc_web_color_table("diverging", "dark");
  ASSERT_NE(bytes, nullptr);
  const auto table =
      posenc::draw::color_table(posenc::draw::ColorMap::kDiverging, posenc::draw::Theme::kDark);
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(table[i], (posenc::draw::Rgb{bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2]}));
  }
  EXPECT_EQ(posenc_web_color_table("rainbow", "dark"), nullptr);
  EXPECT_EQ(posenc_web_color_table("cyclic", "sepia"), nullptr);
}

}  // namespace
