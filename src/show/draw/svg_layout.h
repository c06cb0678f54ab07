// The layout of a figure in pixels, computed before anything is painted.
#pragma once

#include <string>
#include <vector>

#include "draw/figure.h"
#include "draw/svg_canvas.h"
#include "draw/ticks.h"

namespace posenc::draw {

inline constexpr double kTickSize = 11.0;  // of the font
inline constexpr double kLabelSize = 12.0;
inline constexpr double kTitleSize = 13.0;
inline constexpr double kFigureTitleSize = 15.0;
inline constexpr double kFigureTitleRow = 19.0;
inline constexpr double kTitleRow = 17.0;    // from a line of a title to the next
inline constexpr double kLegendLine = 14.0;  // from a line of a name to the next
inline constexpr double kScaleWidth = 12.0;  // of a map's colour bar

// Data to pixels along one axis.
class Scale {
 public:
  Scale(const Axis& axis, Range range, double begin, double end)
      : log_(axis.log), range_(range), begin_(begin), end_(end) {}
  [[nodiscard]] double operator()(double value) const;

 private:
  bool log_;
  Range range_;
  double begin_;
  double end_;
};

struct LegendItem {
  std::string name;
  int color = 0;
  Stroke stroke = Stroke::kSolid;
  bool masked = false;             // the hatch of a map
  std::vector<std::string> lines;  // of the name, where rows are laid out
  bool operator==(const LegendItem&) const = default;
};
using LegendRows = std::vector<std::vector<LegendItem>>;
std::vector<LegendItem> legend_of(const Panel& panel);
double legend_item_width(const LegendItem& item);
// Rows of items that fit into a width; a name that is wider than that takes several lines.
LegendRows legend_rows(const std::vector<LegendItem>& items, double width);
double legend_row_height(const std::vector<LegendItem>& row);
double legend_height(const LegendRows& rows);

struct PanelPlace {
  Box area;                        // what the axes enclose
  std::vector<std::string> title;  // its lines
  Range x;
  Range y;
  std::vector<Tick> x_ticks;
  std::vector<Tick> y_ticks;
  std::vector<Tick> scale_ticks;  // of the map's colours
  double x_words_turn = 0.0;      // degrees
  double y_ticks_width = 0.0;
  double x_ticks_height = 0.0;
  double scale_ticks_width = 0.0;
  LegendRows legend;  // of this panel alone
};

struct Layout {
  double width = 0.0;
  double height = 0.0;
  std::vector<std::string> title;  // its lines
  double title_y = 0.0;
  double legend_y = 0.0;
  double caption_y = 0.0;
  std::vector<std::string> caption;
  LegendRows legend;  // where all panels share one
  std::vector<PanelPlace> panels;
};

Layout lay_out(const Figure& figure);

// Clocks in a row: fewer than the panel has where their labels would meet.
std::int64_t clocks_in_row(const Panel& panel, double width);

// The size of an axis's label, smaller where the axis is shorter than the label.
double label_size(const std::string& label, double room);

}  // namespace posenc::draw
