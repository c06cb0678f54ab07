// A figure as data, independent of how it is painted. Commands write it as SVG, PNG or CSV; the explorer
// page paints the same panels on canvases.
//
// Titles, labels and captions may have formulas (draw/formula.h).
//
// A panel has two axes, and on them one map of colours, curves, shaded regions and rules, in this order
// from back to front; or it is a sheet of clocks. Coordinates are data's own; painters scale them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "draw/colors.h"

namespace posenc::draw {

struct Axis {
  std::string label;  // with its unit: "distance (tokens)"
  bool log = false;   // powers of ten, or of two where `base2`
  bool base2 = false;
  std::optional<double> low;  // else what the data need
  std::optional<double> high;
  // Words in place of numbers at 0, 1, 2, ...: tokens of a sentence, names of encodings.
  std::vector<std::string> words;
};

// Row-major; row 0 is at y = y_begin. NaN is hatched, and the legend names it: keys that a mask hides.
struct Heatmap {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;
  double x_begin = 0.0;  // coordinate of the first column's centre, and the step to the next
  double x_step = 1.0;
  double y_begin = 0.0;
  double y_step = 1.0;
  ColorMap map = ColorMap::kSequential;
  std::optional<double> low;  // ends of the scale; else the data's, about 0 for a diverging map
  std::optional<double> high;
  std::string label;  // of the scale, with its unit: "bias (logits)"
  std::string masked = "masked";
};

enum class Stroke { kSolid, kDashed, kDots, kDotsAndLine, kSteps, kBars };

struct Curve {
  std::string name;  // in the legend; empty: none
  std::vector<double> x;
  std::vector<double> y;    // NaN breaks the line
  std::vector<double> low;  // a band about the line, or empty
  std::vector<double> high;
  bool whiskers = false;  // low to high as an upright line at each point, in place of a band
  Stroke stroke = Stroke::kSolid;
  // Which of the palette's colours; curves of one thing share one through the panels of a figure.
  int color = 0;
};

// A stretch of the x axis, shaded over the whole height: positions beyond the training length.
struct Region {
  double begin = 0.0;
  double end = 0.0;
  std::string label;
  bool vertical = true;  // false: a stretch of the y axis
};

struct Rule {
  double at = 0.0;
  std::string label;
  bool vertical = true;
};

// Text next to a point: the position of an embedding.
struct Note {
  double x = 0.0;
  double y = 0.0;
  std::string text;
};

// A pair of channels as a clock: the hand's angle in radians from 3 o'clock, counter-clockwise.
struct Clock {
  std::string label;
  double angle = 0.0;
  double length = 1.0;        // of the hand, 1 reaches the rim
  std::vector<double> trail;  // angles of the positions before it, oldest first
  bool muted = false;         // beyond the trained angles, or still
};

struct Panel {
  std::string title;
  Axis x;
  Axis y;
  bool y_down = false;  // row 0 on top, as matrices are read
  bool square = false;  // one unit of x as long as one of y
  std::optional<Heatmap> map;
  std::vector<Region> regions;
  std::vector<Curve> curves;
  std::vector<Rule> rules;
  std::vector<Note> notes;
  std::vector<Clock> clocks;  // where there are any, nothing else is painted
  std::int64_t clock_columns = 8;
};

struct Figure {
  std::string title;
  std::string caption;  // a sentence or two: what to see, and from what it was computed
  std::int64_t columns = 1;
  std::vector<Panel> panels;
  double panel_width = 420.0;  // of the painted area, in pixels at 100 %
  double panel_height = 300.0;
};

// Throws Error, which names the panel, where lengths do not fit together or an axis cannot be drawn.
void validate(const Figure& figure);

struct Range {
  double low = 0.0;
  double high = 1.0;
};
// What an axis shows: its own limits, else those of the data, never empty.
Range x_range(const Panel& panel);
Range y_range(const Panel& panel);
// The ends of a map's scale.
Range value_range(const Heatmap& map);
// The part of the scale that the colour bar shows: from the least to the greatest value where no end is given.
Range shown_range(const Heatmap& map);
bool has_masked(const Heatmap& map);

}  // namespace posenc::draw
