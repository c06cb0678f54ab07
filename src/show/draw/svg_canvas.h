// SVG as it is written: one call, one element. Numbers are rounded to a hundredth of a pixel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace posenc::draw {

struct Point {
  double x = 0.0;
  double y = 0.0;
};

struct Box {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;

  [[nodiscard]] double right() const { return x + width; }
  [[nodiscard]] double bottom() const { return y + height; }
};

struct TextStyle {
  std::string_view classes = "pe-text";
  std::string_view anchor = "start";  // or middle, end
  double size = 12.0;
  double turn = 0.0;  // degrees clockwise about the point
};

class SvgCanvas {
 public:
  // Attributes are given as they are written: ` data-name="rope"`.
  void open(std::string_view classes, std::string_view attributes = "");
  void close() { out_ += "</g>\n"; }
  void rect(const Box& box, std::string_view classes);
  void line(Point from, Point to, std::string_view classes);
  void circle(Point centre, double radius, std::string_view classes, std::string_view title = "");
  void path(std::string_view data, std::string_view classes, std::string_view title = "");
  // Formulas as draw/formula.h writes them.
  void text(Point at, std::string_view text, const TextStyle& style);
  void png(const Box& box, std::string_view base64, std::string_view classes);
  void clip(std::string_view id, const Box& box);
  // Lines across the whole box, slanted: what no colour of a scale looks like.
  void hatch(std::string_view id, const Box& box);
  void raw(std::string_view svg) { out_ += svg; }

  [[nodiscard]] const std::string& content() const { return out_; }

 private:
  std::string out_;
};

// "M0,0L1,1": lines through the points, broken where one is not finite.
std::string polyline(const std::vector<Point>& points);
// A filled mark about a point: circle, square, triangle or diamond, in this order and again.
std::string mark(int shape, Point centre, double radius);
inline constexpr int kMarks = 4;
// Closed, without breaks.
std::string polygon(const std::vector<Point>& points);

}  // namespace posenc::draw
