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
void paint_map(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place, Look look);
void paint_curves(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place,
                  const std::string& clip_id);
void paint_clocks(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place);
void paint_legend(SvgCanvas& canvas, const std::vector<std::vector<LegendItem>>& rows, Point at);

// "pe-s3", and with dashes where the palette begins again.
std::string stroke_class(int color, Stroke stroke);

}  // namespace posenc::draw
