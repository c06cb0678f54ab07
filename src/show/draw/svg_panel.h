// One panel painted at its place.
#pragma once

#include "draw/svg.h"
#include "draw/svg_canvas.h"
#include "draw/svg_layout.h"

namespace posenc::draw {

struct PanelScales {
  Scale x;
  Scale y;
};
PanelScales scales_of(const Panel& panel, const PanelPlace& place);

void paint_panel(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place, Look look,
                 const std::string& clip_id);
void paint_map(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place, Look look,
               const std::string& hatch_id);
void paint_curves(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place,
                  const std::string& clip_id);
void paint_clocks(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place);
// Ids of hatches begin with `id`.
void paint_legend(SvgCanvas& canvas, const LegendRows& rows, Point at, const std::string& id);

// "pe-line pe-s3 pe-d3": each colour has dashes of its own, so that equal curves and grey prints show all.
inline constexpr int kDashes = 5;
std::string stroke_class(int color, Stroke stroke);

}  // namespace posenc::draw
