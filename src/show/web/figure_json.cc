#include "web/figure_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "draw/formula.h"
#include "posenc/core/fields.h"

namespace posenc::web {
namespace {

using Json = nlohmann::ordered_json;

Json place(const void* data, std::size_t count, const char* type) {
  return {{"at", reinterpret_cast<std::uintptr_t>(data)}, {"count", count}, {"type", type}};
}
Json array_json(const std::vector<float>& v) { return place(v.data(), v.size(), "f32"); }
Json array_json(const std::vector<double>& v) { return place(v.data(), v.size(), "f64"); }

template <class Enum>
std::string_view name_of(Enum value) {
  return enum_name(value);
}

constexpr std::array<std::string_view, 6> kStrokes = {"solid",         "dashed", "dots",
                                                      "dots_and_line", "steps",  "bars"};

Json range_json(draw::Range range) { return {range.low, range.high}; }

Json axis_json(const draw::Axis& axis, draw::Range range) {
  return {{"label", draw::plain_formula(axis.label)},
          {"log", axis.log},
          {"base2", axis.base2},
          {"range", range_json(range)},
          {"words", axis.words}};
}

Json map_json(const draw::Heatmap& map) {
  return {{"rows", map.rows},
          {"columns", map.columns},
          {"values", array_json(map.values)},
          {"x_begin", map.x_begin},
          {"x_step", map.x_step},
          {"y_begin", map.y_begin},
          {"y_step", map.y_step},
          {"map", name_of(map.map)},
          {"range", range_json(draw::value_range(map))},
          {"label", draw::plain_formula(map.label)},
          {"masked", map.masked}};
}

Json curve_json(const draw::Curve& curve) {
  return {{"name", curve.name},
          {"x", array_json(curve.x)},
          {"y", array_json(curve.y)},
          {"low", array_json(curve.low)},
          {"high", array_json(curve.high)},
          {"stroke", kStrokes.at(static_cast<std::size_t>(curve.stroke))},
          {"color", curve.color}};
}

Json region_json(const draw::Region& region) {
  return {{"begin", region.begin},
          {"end", region.end},
          {"label", region.label},
          {"vertical", region.vertical}};
}

Json rule_json(const draw::Rule& rule) {
  return {{"at", rule.at}, {"label", rule.label}, {"vertical", rule.vertical}};
}

Json note_json(const draw::Note& note) {
  return {{"x", note.x}, {"y", note.y}, {"text", note.text}};
}

Json clock_json(const draw::Clock& clock) {
  return {{"label", clock.label},
          {"angle", clock.angle},
          {"length", clock.length},
          {"trail", array_json(clock.trail)},
          {"muted", clock.muted}};
}

template <class Item, class Writer>
Json list_json(const std::vector<Item>& items, Writer write) {
  Json list = Json::array();
  for (const Item& item : items) list.push_back(write(item));
  return list;
}

Json panel_json(const draw::Panel& panel) {
  Json json = {{"title", draw::plain_formula(panel.title)},
               {"x", axis_json(panel.x, draw::x_range(panel))},
               {"y", axis_json(panel.y, draw::y_range(panel))},
               {"y_down", panel.y_down},
               {"square", panel.square},
               {"map", nullptr},
               {"regions", list_json(panel.regions, region_json)},
               {"curves", list_json(panel.curves, curve_json)},
               {"rules", list_json(panel.rules, rule_json)},
               {"notes", list_json(panel.notes, note_json)},
               {"clocks", list_json(panel.clocks, clock_json)},
               {"clock_columns", panel.clock_columns}};
  if (panel.map) json["map"] = map_json(*panel.map);
  return json;
}

}  // namespace

std::string figure_json(const draw::Figure& figure) {
  const Json json = {{"title", draw::plain_formula(figure.title)},
                     {"caption", draw::plain_formula(figure.caption)},
                     {"columns", figure.columns},
                     {"panel_width", figure.panel_width},
                     {"panel_height", figure.panel_height},
                     {"panels", list_json(figure.panels, panel_json)}};
  return json.dump();
}

}  // namespace posenc::web
