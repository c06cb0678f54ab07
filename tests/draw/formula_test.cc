#include "draw/formula.h"

#include <gtest/gtest.h>

#include "draw/svg.h"
#include "draw/ticks.h"

namespace posenc::draw {
namespace {

TEST(Formula, AsciiBecomesLettersOfMathematics) {
  EXPECT_EQ(typeset("B = -slope_h |i - j|"), "B = −slope_{h} |i − j|");
  EXPECT_EQ(typeset("p_ij = SUM_{t=j..i} sigmoid(r_it)"), "p_{ij} = Σ_{t=j…i} σ(r_{it})");
  EXPECT_EQ(typeset("A_ij = PROD_{j<t<i} (1 - s)"), "A_{ij} = Π_{j<t<i} (1 − s)");
  EXPECT_EQ(typeset("sin(t theta^(-2i/d))"), "sin(t θ^{−2i/d})");
  EXPECT_EQ(typeset("<q'_i, w_t^T>"), "⟨q′_{i}, w_{t}^{T}⟩");
  EXPECT_EQ(typeset("-a_h |i - j|^p_h"), "−a_{h} |i − j|^{pₕ}");
  EXPECT_EQ(typeset("q_i . e[clip(pi)]"), "q_{i} · e[clip(π)]");
  EXPECT_EQ(typeset("s -> cap tanh(s / cap)"), "s → cap tanh(s / cap)");
}

TEST(Formula, PlainTextHasSmallLettersWhereAllExist) {
  EXPECT_EQ(plain_formula("p_{ij} = Σ_{t=j…i} x^{2}"), "pᵢⱼ = Σ_(t=j…i) x²");
  EXPECT_EQ(plain_formula("E_{c}(t) θ^{−2i/d}"), "E_c(t) θ^(−2i/d)");
  EXPECT_EQ(plain_formula("init_std=_{ and x_y"), "init_std=_{ and x_y");
}

TEST(Formula, ALoweredLetterIsSmallerAndTheNextOneBackOnTheLine) {
  Figure figure{.title = "p_{i} = 1", .caption = "", .panels = {{}}};
  const std::string svg = to_svg(figure, {.embedded = true});
  EXPECT_NE(svg.find("p<tspan dy=\"3.6\" font-size=\"11.1\">i</tspan><tspan dy=\"-3.6\" "
                     "xml:space=\"preserve\"> = 1</tspan>"),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("<title>pᵢ = 1</title>"), std::string::npos);
  EXPECT_LT(text_width("p_{i}"), text_width("pi"));
}

TEST(Formula, ACaptionIsNotBrokenInsideAGroup) {
  Figure figure{.caption = "", .panels = {{}}};
  figure.panel_width = 60;
  for (int i = 0; i < 12; ++i) figure.caption += "x^{2i}";
  const std::string svg = to_svg(figure, {.embedded = true});
  EXPECT_EQ(svg.find("^{"), std::string::npos);
  EXPECT_EQ(svg.find("i}"), std::string::npos);
}

}  // namespace
}  // namespace posenc::draw
