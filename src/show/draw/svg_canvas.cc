#include "draw/svg_canvas.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "draw/formula.h"
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

// Lowered and raised runs are smaller and off the line; the next run comes back to it.
std::string marked_up(std::string_view text, double size) {
  constexpr double kSmaller = 0.74;
  const std::vector<TextRun> runs = text_runs(text);
  std::string out;
  double height = 0.0;
  for (const TextRun& run : runs) {
    const double wanted = run.shift == Shift::kNone      ? 0.0
                          : run.shift == Shift::kLowered ? 0.24 * size
                                                         : -0.36 * size;
    if (wanted == height && run.shift == Shift::kNone) {
      out += escaped(run.text);
      continue;
    }
    const std::string smaller =
        run.shift == Shift::kNone ? "" : fmt::format(" font-size=\"{}\"", number(size * kSmaller));
    // librsvg drops a space that begins a tspan.
    const char* spaces = run.text.starts_with(' ') ? " xml:space=\"preserve\"" : "";
    out += fmt::format("<tspan dy=\"{}\"{}{}>{}</tspan>", number(wanted - height), smaller, spaces,
                       escaped(run.text));
    height = wanted;
  }
  return out;
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

void SvgCanvas::path(std::string_view data, std::string_view classes, std::string_view title) {
  if (data.empty()) return;
  fmt::format_to(std::back_inserter(out_), "<path class=\"{}\" d=\"{}\"", classes, data);
  out_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></path>\n", escaped(title));
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
                 marked_up(text, style.size));
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

void SvgCanvas::hatch(std::string_view id, const Box& box) {
  fmt::format_to(
      std::back_inserter(out_),
      "<pattern id=\"{}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><line class=\"pe-hatch\" x1=\"0\" y1=\"0\" x2=\"0\" "
      "y2=\"5\"/></pattern>\n<rect fill=\"url(#{})\" {}/>\n",
      id, id, box_text(box));
}

std::string mark(int shape, Point centre, double radius) {
  const double x = centre.x;
  const double y = centre.y;
  const double side = radius * 0.9;
  switch (shape % kMarks) {
    case 1:
      return polygon(
          {{x - side, y - side}, {x + side, y - side}, {x + side, y + side}, {x - side, y + side}});
    case 2:
      return polygon({{x, y - 1.25 * radius},
                      {x + 1.15 * radius, y + 0.8 * radius},
                      {x - 1.15 * radius, y + 0.8 * radius}});
    case 3:
      return polygon({{x, y - 1.35 * radius},
                      {x + 1.15 * radius, y},
                      {x, y + 1.35 * radius},
                      {x - 1.15 * radius, y}});
    default:
      return fmt::format("M{0},{1}a{2},{2} 0 1 0 {3},0a{2},{2} 0 1 0 -{3},0Z", number(x - radius),
                         number(y), number(radius), number(2 * radius));
  }
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
