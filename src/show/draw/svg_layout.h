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
inline constexpr double kTitleRow = 17.0;    // from a line of a title to the next
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
  bool operator==(const LegendItem&) const = default;
};
std::vector<LegendItem> legend_of(const Panel& panel);
double legend_item_width(const LegendItem& item);
// Rows of items that fit into a width.
std::vector<std::vector<LegendItem>> legend_rows(const std::vector<LegendItem>& items,
                                                 double width);

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
  std::vector<std::vector<LegendItem>> legend;  // of this panel alone
};

struct Layout {
  double width = 0.0;
  double height = 0.0;
  double title_y = 0.0;
  double legend_y = 0.0;
  double caption_y = 0.0;
  std::vector<std::string> caption;
  std::vector<std::vector<LegendItem>> legend;  // where all panels share one
  std::vector<PanelPlace> panels;
};

Layout lay_out(const Figure& figure);

}  // namespace posenc::draw
