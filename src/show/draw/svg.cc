#include "draw/svg.h"

#include <fmt/format.h>

#include "draw/formula.h"
#include "draw/markup.h"
#include "draw/svg_canvas.h"
#include "draw/svg_layout.h"
#include "draw/svg_panel.h"
#include "system/sha256.h"

namespace posenc::draw {
namespace {

// Ids are shared by a whole page: they begin with digits made from the figure's text.
std::string id_of(const Figure& figure) {
  Sha256 hash;
  hash.update(figure.title);
  hash.update(figure.caption);
  for (const Panel& p : figure.panels) hash.update(p.title + p.x.label + p.y.label);
  return "pe" + hash.hex().substr(0, 8);
}

void paint_words(SvgCanvas& canvas, const Layout& layout, const std::string& id) {
  double y = layout.title_y;
  for (const std::string& line : layout.title) {
    canvas.text({16, y}, line, {.classes = "pe-text pe-title", .size = kFigureTitleSize});
    y += kFigureTitleRow;
  }
  paint_legend(canvas, layout.legend, {16, layout.legend_y}, id);
  y = layout.caption_y + 8;
  for (const std::string& line : layout.caption) {
    canvas.text({16, y}, line, {.classes = "pe-soft", .size = kTickSize});
    y += 16;
  }
}

}  // namespace

std::string to_svg(const Figure& figure, const SvgOptions& options) {
  validate(figure);
  const Layout layout = lay_out(figure);
  const std::string id = id_of(figure);
  SvgCanvas canvas;
  canvas.raw(
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"pe-figure\" role=\"img\" "
                  "viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\">\n"
                  "<title>{2}</title>\n",
                  layout.width, layout.height, escaped(plain_formula(figure.title))));
  if (!options.embedded) {
    canvas.raw("<style>\n" + svg_style(options.look) + "</style>\n");
    canvas.rect({0, 0, layout.width, layout.height}, "pe-paper");
  }
  paint_words(canvas, layout, id);
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    paint_panel(canvas, figure.panels[i], layout.panels[i], options.look,
                fmt::format("{}-{}", id, i));
  }
  canvas.raw("</svg>\n");
  return canvas.content();
}

}  // namespace posenc::draw
