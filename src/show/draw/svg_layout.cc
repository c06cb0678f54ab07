#include "draw/svg_layout.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "draw/formula.h"

namespace posenc::draw {
namespace {

constexpr double kEdge = 16.0;  // about the whole figure
constexpr double kGap = 18.0;   // between panels
constexpr double kLegendRow = 18.0;
constexpr double kLegendSign = 32.0;  // the line or mark before a name
constexpr double kLegendGap = 16.0;   // after it
constexpr double kCaptionRow = 16.0;
constexpr double kWordPitch = 12.0;  // closest words of a turned axis
constexpr double kSteep = -60.0;     // turned words still read
constexpr double kBoldWidth = 1.08;  // of titles, over that of plain letters

struct Margins {
  double left = 0.0;
  double right = 0.0;
  double top = 0.0;
  double bottom = 0.0;
};

double widest(const std::vector<Tick>& ticks) {
  double width = 0.0;
  for (const Tick& t : ticks) width = std::max(width, text_width(t.text) * kTickSize);
  return width;
}

// The shorter axis shows more, so that distances in the picture are distances in the data.
void even_out(PanelPlace& place) {
  const double per_x = (place.x.high - place.x.low) / place.area.width;
  const double per_y = (place.y.high - place.y.low) / place.area.height;
  Range& shorter = per_x < per_y ? place.x : place.y;
  const double factor = std::max(per_x, per_y) / std::min(per_x, per_y);
  const double middle = (shorter.low + shorter.high) / 2;
  const double half = (shorter.high - shorter.low) / 2 * factor;
  shorter = {middle - half, middle + half};
}

double area_height(const Figure& figure, const Panel& panel) {
  if (!panel.clocks.empty()) {
    const auto columns = static_cast<double>(clocks_in_row(panel, figure.panel_width));
    const double rows = std::ceil(static_cast<double>(panel.clocks.size()) / columns);
    return rows * (figure.panel_width / columns + 16.0);
  }
  if (panel.square && panel.map) {
    const double ratio =
        static_cast<double>(panel.map->rows) / static_cast<double>(panel.map->columns);
    return figure.panel_width * std::clamp(ratio, 0.2, 1.6);
  }
  return figure.panel_height;
}

void place_x_words(const Panel& panel, PanelPlace& place) {
  const double fit = place.area.width / (place.x.high - place.x.low);
  double longest = 0.0;
  for (const std::string& w : panel.x.words) longest = std::max(longest, text_width(w) * kTickSize);
  if (longest + 6 < fit) {
    place.x_ticks = ticks(panel.x, place.x, static_cast<int>(panel.x.words.size()));
    place.x_ticks_height = kTickSize + 4;
    return;
  }
  place.x_words_turn = kSteep;
  place.x_ticks = ticks(panel.x, place.x, static_cast<int>(place.area.width / kWordPitch));
  place.x_ticks_height = widest(place.x_ticks) * 0.87 + kTickSize;
}

bool stand_apart(const std::vector<Tick>& ticks, const Scale& scale) {
  constexpr double kBetween = 8.0;
  for (std::size_t t = 1; t < ticks.size(); ++t) {
    const double widths = text_width(ticks[t].text) + text_width(ticks[t - 1].text);
    const double distance = scale(ticks[t].at) - scale(ticks[t - 1].at);
    if (distance < widths * kTickSize / 2 + kBetween) return false;
  }
  return true;
}

// As many as have room: powers are few, and the last one may be what the axis is about.
std::vector<Tick> log_x_ticks(const Axis& axis, Range range, double width) {
  const Scale scale(axis, range, 0.0, width);
  for (int most = static_cast<int>(width / 24.0); most > 2; --most) {
    std::vector<Tick> found = ticks(axis, range, most);
    if (stand_apart(found, scale)) return found;
  }
  return ticks(axis, range, 2);
}

// The two ends, as the data have them, and round numbers that keep off them.
std::vector<Tick> bar_ticks(Range range, double height) {
  constexpr double kApart = 14.0;
  const double span = range.high - range.low;
  std::vector<Tick> out;
  for (const Tick& tick : ticks({}, range, std::max(2, static_cast<int>(height / 40.0)))) {
    const double nearest = std::min(tick.at - range.low, range.high - tick.at);
    if (nearest / span * height >= kApart) out.push_back(tick);
  }
  out.insert(out.begin(), {range.low, rounded_text(range.low, span)});
  out.push_back({range.high, rounded_text(range.high, span)});
  return out;
}

void place_ticks(const Panel& panel, PanelPlace& place) {
  const double pitch = !panel.y.words.empty() ? kWordPitch : panel.y.log ? 28.0 : 34.0;
  place.y_ticks = ticks(panel.y, place.y, static_cast<int>(place.area.height / pitch));
  place.y_ticks_width = widest(place.y_ticks);
  if (panel.x.words.empty()) {
    place.x_ticks = panel.x.log
                        ? log_x_ticks(panel.x, place.x, place.area.width)
                        : ticks(panel.x, place.x, static_cast<int>(place.area.width / 62.0));
    place.x_ticks_height = kTickSize + 4;
  } else {
    place_x_words(panel, place);
  }
  if (panel.map) {
    place.scale_ticks = bar_ticks(shown_range(*panel.map), place.area.height);
    place.scale_ticks_width = widest(place.scale_ticks);
  }
}

// Letters from the start of the text that fit, at least one.
std::size_t fitting(std::string_view text, double room) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t next = letter_end(text, end);
    if (end > 0 && text_width(text.substr(0, next)) > room) break;
    end = next;
  }
  return end;
}

// Breaks lines between words, and a word that is too wide between letters.
std::vector<std::string> wrapped(const std::string& text, double width, double size) {
  std::vector<std::string> lines;
  std::string line;
  const double room = width / size;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    if (!line.empty() && text_width(line) + text_width(word) + 0.4 > room) {
      lines.push_back(std::exchange(line, ""));
    }
    const std::size_t fits = line.empty() ? fitting(word, room) : word.size();
    line += (line.empty() ? "" : " ") + std::string(word.substr(0, fits));
    begin += fits < word.size() ? fits : word.size() + 1;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

PanelPlace measure(const Figure& figure, const Panel& panel) {
  PanelPlace place;
  place.area = {0, 0, figure.panel_width, area_height(figure, panel)};
  place.title = wrapped(panel.title, figure.panel_width, kTitleSize * kBoldWidth);
  if (!panel.clocks.empty()) return place;
  place.x = x_range(panel);
  place.y = y_range(panel);
  if (panel.square && !panel.map) even_out(place);
  place_ticks(panel, place);
  return place;
}

Margins margins_of(const Panel& panel, const PanelPlace& place) {
  Margins m{.left = 8, .right = 12, .top = 8, .bottom = 8};
  if (!place.title.empty()) m.top = 9 + kTitleRow * static_cast<double>(place.title.size());
  m.top += legend_height(place.legend);
  if (!panel.clocks.empty()) return m;
  m.left += place.y_ticks_width + (panel.y.label.empty() ? 4.0 : 24.0);
  m.bottom += place.x_ticks_height + (panel.x.label.empty() ? 4.0 : 20.0);
  if (panel.map) {
    m.right += kScaleWidth + 14.0 + place.scale_ticks_width;
    if (!panel.map->label.empty()) m.right += 18.0;
  }
  return m;
}

// Panels of a column share left and right, those of a row top and bottom: their axes are in line.
struct Grid {
  std::vector<Margins> columns;
  std::vector<Margins> rows;
};

Grid grid_of(const Figure& figure, const std::vector<PanelPlace>& places, std::size_t columns) {
  Grid grid{std::vector<Margins>(columns),
            std::vector<Margins>((places.size() + columns - 1) / columns)};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Margins m = margins_of(figure.panels[i], places[i]);
    Margins& column = grid.columns[i % columns];
    column.left = std::max(column.left, m.left);
    column.right = std::max(column.right, m.right);
    Margins& row = grid.rows[i / columns];
    row.top = std::max(row.top, m.top);
    row.bottom = std::max(row.bottom, m.bottom);
  }
  return grid;
}

// A legend for the whole figure where all panels that have curves with names, several of them or the
// only one, have the same.
std::vector<LegendItem> shared_legend(const Figure& figure) {
  std::vector<LegendItem> shared;
  std::size_t panels = 0;
  for (const Panel& panel : figure.panels) {
    const auto items = legend_of(panel);
    if (items.empty()) continue;
    if (!shared.empty() && shared != items) return {};
    shared = items;
    ++panels;
  }
  const bool of_one_among_many = panels == 1 && figure.panels.size() > 1;
  return of_one_among_many ? std::vector<LegendItem>{} : shared;
}

double grid_width(const Figure& figure, const Grid& grid) {
  double width = kGap * static_cast<double>(grid.columns.size() - 1);
  for (const Margins& m : grid.columns) width += m.left + figure.panel_width + m.right;
  return width;
}

// Rows of panels from the top; returns where they end.
double place_rows(const Grid& grid, double top, Layout& layout) {
  const std::size_t columns = grid.columns.size();
  for (std::size_t row = 0; row < grid.rows.size(); ++row) {
    double height = 0.0;
    double x = kEdge;
    for (std::size_t c = 0; c < columns && row * columns + c < layout.panels.size(); ++c) {
      Box& area = layout.panels[row * columns + c].area;
      area.x = x + grid.columns[c].left;
      area.y = top + grid.rows[row].top;
      height = std::max(height, area.height);
      x = area.right() + grid.columns[c].right + kGap;
    }
    top += grid.rows[row].top + height + grid.rows[row].bottom + kGap;
  }
  return top - kGap;
}

}  // namespace

double Scale::operator()(double value) const {
  const double at = log_ ? std::log(value / range_.low) / std::log(range_.high / range_.low)
                         : (value - range_.low) / (range_.high - range_.low);
  return begin_ + at * (end_ - begin_);  // std::lerp would turn NaN into an end
}

std::vector<LegendItem> legend_of(const Panel& panel) {
  std::vector<LegendItem> items;
  for (const Curve& c : panel.curves) {
    const LegendItem item{.name = c.name, .color = c.color, .stroke = c.stroke, .lines = {}};
    if (!c.name.empty() && std::find(items.begin(), items.end(), item) == items.end()) {
      items.push_back(item);
    }
  }
  if (panel.map && has_masked(*panel.map)) {
    items.push_back({.name = panel.map->masked, .masked = true, .lines = {}});
  }
  return items;
}

double legend_item_width(const LegendItem& item) {
  double widest = 0.0;
  for (const std::string& line : item.lines) widest = std::max(widest, text_width(line));
  return kLegendSign + widest * kLabelSize + kLegendGap;
}

LegendRows legend_rows(const std::vector<LegendItem>& items, double width) {
  LegendRows rows;
  double used = 0.0;
  for (LegendItem item : items) {
    item.lines = wrapped(item.name, width - kLegendSign, kLabelSize);
    const double own = legend_item_width(item);
    if (rows.empty() || used + own - kLegendGap > width) {
      rows.emplace_back();
      used = 0.0;
    }
    rows.back().push_back(std::move(item));
    used += own;
  }
  return rows;
}

double legend_row_height(const std::vector<LegendItem>& row) {
  std::size_t lines = 1;
  for (const LegendItem& item : row) lines = std::max(lines, item.lines.size());
  return kLegendRow + kLegendLine * static_cast<double>(lines - 1);
}

double legend_height(const LegendRows& rows) {
  double height = 0.0;
  for (const auto& row : rows) height += legend_row_height(row);
  return height;
}

std::int64_t clocks_in_row(const Panel& panel, double width) {
  constexpr double kCell = 80.0;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(width / kCell), 1, panel.clock_columns);
}

double label_size(const std::string& label, double room) {
  constexpr double kSmallest = 8.0;
  const double width = text_width(label);
  return width * kLabelSize <= room ? kLabelSize : std::max(kSmallest, room / width);
}

Layout lay_out(const Figure& figure) {
  Layout layout;
  for (const Panel& panel : figure.panels) layout.panels.push_back(measure(figure, panel));
  const auto shared = shared_legend(figure);
  if (shared.empty()) {
    for (std::size_t i = 0; i < layout.panels.size(); ++i) {
      layout.panels[i].legend = legend_rows(legend_of(figure.panels[i]), figure.panel_width);
    }
  }
  const auto columns = static_cast<std::size_t>(std::clamp<std::int64_t>(
      figure.columns, 1, std::max<std::int64_t>(1, std::ssize(figure.panels))));
  const Grid grid = grid_of(figure, layout.panels, columns);
  // Whole pixels: a picture's last column and row are the paper's.
  layout.width = std::ceil(2 * kEdge + grid_width(figure, grid));
  double top = kEdge;
  layout.title = wrapped(figure.title, layout.width - 2 * kEdge, kFigureTitleSize * kBoldWidth);
  layout.title_y = top + 14;
  if (!layout.title.empty()) {
    top += 7 + kFigureTitleRow * static_cast<double>(layout.title.size());
  }
  layout.legend = legend_rows(shared, layout.width - 2 * kEdge);
  layout.legend_y = top;
  top += legend_height(layout.legend);
  top = place_rows(grid, top, layout);
  layout.caption = wrapped(figure.caption, layout.width - 2 * kEdge, kTickSize);
  layout.caption_y = top + 12;
  if (!layout.caption.empty()) top += 8 + kCaptionRow * static_cast<double>(layout.caption.size());
  layout.height = std::ceil(top + kEdge);
  return layout;
}

}  // namespace posenc::draw
