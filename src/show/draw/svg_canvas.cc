#include "draw/svg_canvas.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "draw/markup.h"

namespace posenc::draw {
namespace {

// Two decimals are a hundredth of a pixel; trailing zeros would be a fifth of a file.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string box_text(const Box& box) {
  return fmt::format(R"(x="{}" y="{}" width="{}" height="{}")", number(box.x), number(box.y),
                     number(box.width), number(box.height));
}

}  // namespace

void SvgCanvas::open(std::string_view classes, std::string_view attributes) {
  fmt::format_to(std::back_inserter(out_), "<g class=\"{}\"{}>\n", classes, attributes);
}

void SvgCanvas::rect(const Box& box, std::string_view classes) {
  fmt::format_to(std::back_inserter(out_), "<rect class=\"{}\" {}/>\n", classes, box_text(box));
}

void SvgCanvas::line(Point from, Point to, std::string_view classes) {
  fmt::format_to(std::back_inserter(out_),
                 R"(<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>)"
                 "\n",
                 classes, number(from.x), number(from.y), number(to.x), number(to.y));
}

void SvgCanvas::circle(Point centre, double radius, std::string_view classes,
                       std::string_view title) {
  fmt::format_to(std::back_inserter(out_), R"(<circle class="{}" cx="{}" cy="{}" r="{}")", classes,
                 number(centre.x), number(centre.y), number(radius));
  out_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></circle>\n", escaped(title));
}

void SvgCanvas::path(std::string_view data, std::string_view classes) {
  if (data.empty()) return;
  fmt::format_to(std::back_inserter(out_), "<path class=\"{}\" d=\"{}\"/>\n", classes, data);
}

void SvgCanvas::text(Point at, std::string_view text, const TextStyle& style) {
  std::string turn;
  if (style.turn != 0) {
    turn = fmt::format(" transform=\"rotate({} {} {})\"", number(style.turn), number(at.x),
                       number(at.y));
  }
  fmt::format_to(std::back_inserter(out_),
                 "<text class=\"{}\" x=\"{}\" y=\"{}\" font-size=\"{}\" "
                 "text-anchor=\"{}\"{}>{}</text>\n",
                 style.classes, number(at.x), number(at.y), number(style.size), style.anchor, turn,
                 escaped(text));
}

void SvgCanvas::png(const Box& box, std::string_view base64, std::string_view classes) {
  fmt::format_to(std::back_inserter(out_),
                 "<image class=\"{}\" {} preserveAspectRatio=\"none\" "
                 "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
                 classes, box_text(box), base64);
}

void SvgCanvas::clip(std::string_view id, const Box& box) {
  fmt::format_to(std::back_inserter(out_), "<clipPath id=\"{}\"><rect {}/></clipPath>\n", id,
                 box_text(box));
}

std::string polyline(const std::vector<Point>& points) {
  std::string out;
  bool drawing = false;
  for (const Point& p : points) {
    const bool there = std::isfinite(p.x) && std::isfinite(p.y);
    if (there) {
      fmt::format_to(std::back_inserter(out), "{}{},{}", drawing ? 'L' : 'M', number(p.x),
                     number(p.y));
    }
    drawing = there;
  }
  return out;
}

std::string polygon(const std::vector<Point>& points) {
  const std::string line = polyline(points);
  return line.empty() ? line : line + "Z";
}

}  // namespace posenc::draw
