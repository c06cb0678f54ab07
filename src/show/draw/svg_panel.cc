#include "draw/svg_panel.h"

#include <fmt/format.h>

#include <algorithm>

#include "draw/formula.h"
#include "draw/markup.h"

namespace posenc::draw {
namespace {

void paint_x_axis(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place,
                  const Scale& scale) {
  const Box& area = place.area;
  for (const Tick& t : place.x_ticks) {
    const double x = scale(t.at);
    if (!panel.map) canvas.line({x, area.y}, {x, area.bottom()}, "pe-grid");
    canvas.line({x, area.bottom()}, {x, area.bottom() + 4}, "pe-axis");
    TextStyle style{.classes = "pe-soft", .anchor = "middle", .size = kTickSize};
    Point at{x, area.bottom() + 5 + kTickSize};
    if (place.x_words_turn != 0) {
      style.anchor = "end";
      style.turn = place.x_words_turn;
      at = {x + 4, area.bottom() + 12};
    }
    canvas.text(at, t.text, style);
  }
  if (panel.x.label.empty()) return;
  canvas.text({area.x + area.width / 2, area.bottom() + place.x_ticks_height + 20}, panel.x.label,
              {.anchor = "middle", .size = label_size(panel.x.label, area.width)});
}

void paint_y_axis(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place,
                  const Scale& scale) {
  const Box& area = place.area;
  for (const Tick& t : place.y_ticks) {
    const double y = scale(t.at);
    if (!panel.map) canvas.line({area.x, y}, {area.right(), y}, "pe-grid");
    canvas.line({area.x - 4, y}, {area.x, y}, "pe-axis");
    canvas.text({area.x - 7, y + 4}, t.text,
                {.classes = "pe-soft", .anchor = "end", .size = kTickSize});
  }
  if (panel.y.label.empty()) return;
  canvas.text({area.x - place.y_ticks_width - 16, area.y + area.height / 2}, panel.y.label,
              {.anchor = "middle", .size = label_size(panel.y.label, area.height), .turn = -90});
}

// Neighbours are shaded in turn, so that one sees where the next begins.
void paint_region(SvgCanvas& canvas, const Region& region, const PanelPlace& place,
                  const PanelScales& scales, bool lighter) {
  const Box& area = place.area;
  const Scale& scale = region.vertical ? scales.x : scales.y;
  const double a = scale(region.begin);
  const double b = scale(region.end);
  const double low = std::max(std::min(a, b), region.vertical ? area.x : area.y);
  const double high = std::min(std::max(a, b), region.vertical ? area.right() : area.bottom());
  if (high <= low) return;
  const Box box = region.vertical ? Box{low, area.y, high - low, area.height}
                                  : Box{area.x, low, area.width, high - low};
  canvas.rect(box, lighter ? "pe-shade pe-lighter" : "pe-shade");
  if (region.label.empty() || text_width(region.label) * kTickSize + 8 > box.width) return;
  canvas.text({box.x + 5, box.y + 14}, region.label,
              {.classes = "pe-soft pe-halo", .size = kTickSize});
}

// `row` of its label from the top: regions have theirs in the first.
void paint_rule(SvgCanvas& canvas, const Rule& rule, const PanelPlace& place,
                const PanelScales& scales, double row) {
  const Box& area = place.area;
  const double at = rule.vertical ? scales.x(rule.at) : scales.y(rule.at);
  const bool inside = rule.vertical ? at >= area.x - 0.5 && at <= area.right() + 0.5
                                    : at >= area.y - 0.5 && at <= area.bottom() + 0.5;
  if (!inside) return;
  if (rule.vertical) {
    canvas.line({at, area.y}, {at, area.bottom()}, "pe-rule");
    const bool left = at > area.x + area.width * 0.7;
    canvas.text(
        {left ? at - 5 : at + 5, area.y + 14 * row}, rule.label,
        {.classes = "pe-soft pe-halo", .anchor = left ? "end" : "start", .size = kTickSize});
  } else {
    canvas.line({area.x, at}, {area.right(), at}, "pe-rule");
    canvas.text({area.right() - 5, at - 4}, rule.label,
                {.classes = "pe-soft pe-halo", .anchor = "end", .size = kTickSize});
  }
}

void paint_frame(SvgCanvas& canvas, const PanelPlace& place) {
  const Box& a = place.area;
  canvas.path(polygon({{a.x, a.y}, {a.right(), a.y}, {a.right(), a.bottom()}, {a.x, a.bottom()}}),
              "pe-axis");
}

void paint_title(SvgCanvas& canvas, const PanelPlace& place, const std::string& id) {
  const double legend = legend_height(place.legend);
  paint_legend(canvas, place.legend, {place.area.x, place.area.y - legend - 4}, id);
  double y = place.area.y - legend - 9 + kTitleRow;
  y -= kTitleRow * static_cast<double>(place.title.size());
  for (const std::string& line : place.title) {
    canvas.text({place.area.x, y}, line, {.classes = "pe-text pe-title", .size = kTitleSize});
    y += kTitleRow;
  }
}

void paint_legend_sign(SvgCanvas& canvas, const LegendItem& item, Point at, const std::string& id) {
  if (item.masked) {
    const Box box{at.x, at.y - 6, 26, 11};
    canvas.hatch(id + "-key", box);
    canvas.rect(box, "pe-axis");
    return;
  }
  const bool dots = item.stroke == Stroke::kDots;
  if (!dots) canvas.line(at, {at.x + 26, at.y}, stroke_class(item.color, item.stroke));
  if (dots || item.stroke == Stroke::kDotsAndLine) {
    canvas.path(mark(item.color, {at.x + 13, at.y}, 3.4),
                fmt::format("pe-dot pe-f{}", item.color % kPaletteSize));
  }
}

void paint_legend_item(SvgCanvas& canvas, const LegendItem& item, Point at, const std::string& id) {
  canvas.open("pe-legend", fmt::format(" data-name=\"{}\"", escaped(item.name)));
  paint_legend_sign(canvas, item, at, id);
  double y = at.y + 4;
  for (const std::string& line : item.lines) {
    canvas.text({at.x + 32, y}, line, {.size = kLabelSize});
    y += kLegendLine;
  }
  canvas.close();
}

}  // namespace

PanelScales scales_of(const Panel& panel, const PanelPlace& place) {
  const Box& a = place.area;
  const double bottom = panel.y_down ? a.y : a.bottom();
  const double top = panel.y_down ? a.bottom() : a.y;
  return {Scale(panel.x, place.x, a.x, a.right()), Scale(panel.y, place.y, bottom, top)};
}

std::string stroke_class(int color, Stroke stroke) {
  const std::string out = fmt::format("pe-line pe-s{}", color % kPaletteSize);
  if (stroke == Stroke::kDashed) return out + " pe-dashed";
  const int dashes = color % kDashes;
  return dashes == 0 ? out : fmt::format("{} pe-d{}", out, dashes);
}

void paint_legend(SvgCanvas& canvas, const LegendRows& rows, Point at, const std::string& id) {
  for (const auto& row : rows) {
    double x = at.x;
    for (const LegendItem& item : row) {
      paint_legend_item(canvas, item, {x, at.y + 9}, id);
      x += legend_item_width(item);
    }
    at.y += legend_row_height(row);
  }
}

void paint_panel(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place, Look look,
                 const std::string& clip_id) {
  canvas.open("pe-panel", fmt::format(" data-title=\"{}\"", escaped(plain_formula(panel.title))));
  paint_title(canvas, place, clip_id);
  if (!panel.clocks.empty()) {
    paint_clocks(canvas, panel, place);
    canvas.close();
    return;
  }
  const PanelScales scales = scales_of(panel, place);
  canvas.clip(clip_id, place.area);
  if (panel.map) paint_map(canvas, panel, place, look, clip_id + "-hatch");
  for (std::size_t i = 0; i < panel.regions.size(); ++i) {
    paint_region(canvas, panel.regions[i], place, scales, i % 2 == 1);
  }
  paint_x_axis(canvas, panel, place, scales.x);
  paint_y_axis(canvas, panel, place, scales.y);
  paint_curves(canvas, panel, place, clip_id);
  const double row = panel.regions.empty() ? 1.0 : 2.1;
  for (const Rule& r : panel.rules) paint_rule(canvas, r, place, scales, row);
  for (const Note& n : panel.notes) {
    canvas.text({scales.x(n.x) + 5, scales.y(n.y) - 5}, n.text,
                {.classes = "pe-soft", .size = kTickSize});
  }
  paint_frame(canvas, place);
  canvas.close();
}

}  // namespace posenc::draw
