#include "web/web.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "core/value.h"
#include "draw/colors.h"
#include "draw/files.h"
#include "plots/plot.h"
#include "web/catalog.h"
#include "web/figure_json.h"

struct posenc_web_figure {
  posenc::draw::Figure figure;
  std::string description;  // or {"error": ...}
  std::string csv;
};

namespace posenc::web {
namespace {

std::string error_json(const char* what) {
  return nlohmann::json{{"error", what}}.dump(-1, ' ', false,
                                              nlohmann::json::error_handler_t::replace);
}

// What `compute` returns, or the error as JSON: nothing is thrown into JavaScript.
template <class Compute>
std::string guarded(Compute compute) {
  try {
    return compute();
  } catch (const std::exception& error) {
    return error_json(error.what());
  }
}

// Index of a name of an enum, or -1.
template <std::size_t kCount>
std::ptrdiff_t index_of(const std::array<std::string_view, kCount>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : found - names.begin();
}

}  // namespace
}  // namespace posenc::web

namespace draw = posenc::draw;
namespace plots = posenc::plots;
namespace web = posenc::web;

extern "C" {

const char* posenc_web_catalog() {
  static std::string text;
  text = web::guarded(web::catalog_json);
  return text.c_str();
}

const char* posenc_web_spec(const char* spec) {
  static std::string text;
  text = web::guarded([&] { return web::spec_json(spec); });
  return text.c_str();
}

posenc_web_figure* posenc_web_plot(const char* request) {
  auto* result =
      new posenc_web_figure();  // NOLINT(cppcoreguidelines-owning-memory): JavaScript frees it
  result->description = web::guarded([&] {
    result->figure = plots::plot(plots::read_request(posenc::parse_json(request, "request")));
    return web::figure_json(result->figure);
  });
  return result;
}

const char* posenc_web_describe(const posenc_web_figure* figure) {
  return figure->description.c_str();
}

const char* posenc_web_csv(posenc_web_figure* figure, int panel) {
  figure->csv = web::guarded([&] {
    if (panel < 0) return draw::to_csv(figure->figure);
    draw::Figure one;
    one.panels.push_back(figure->figure.panels.at(static_cast<std::size_t>(panel)));
    return draw::to_csv(one);
  });
  return figure->csv.c_str();
}

void posenc_web_free(posenc_web_figure* figure) { delete figure; }

const std::uint8_t* posenc_web_color_table(const char* map, const char* theme) {
  static std::array<draw::Rgb, 256> table;
  static_assert(sizeof(table) == 768);
  const std::ptrdiff_t m = web::index_of(enum_names(draw::ColorMap{}), map);
  const std::ptrdiff_t t = web::index_of(enum_names(draw::Theme{}), theme);
  if (m < 0 || t < 0) return nullptr;
  table = draw::color_table(static_cast<draw::ColorMap>(m), static_cast<draw::Theme>(t));
  return &table.data()->r;
}

}  // extern "C"
