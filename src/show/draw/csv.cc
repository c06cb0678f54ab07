#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "draw/files.h"
#include "draw/formula.h"

namespace posenc::draw {
namespace {

// Shortest text that reads back as the same number; nothing for NaN.
std::string field(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }
std::string field(float value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

class Rows {
 public:
  explicit Rows(const Panel& panel) : panel_(quoted(plain_formula(panel.title))) {}

  void add(std::string_view kind, const std::string& name, const std::array<std::string, 5>& rest) {
    fmt::format_to(std::back_inserter(out_), "{},{},{},{},{},{},{},{}\n", panel_, kind,
                   quoted(name), rest[0], rest[1], rest[2], rest[3], rest[4]);
  }
  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  std::string panel_;
  std::string out_;
};

void add_map(Rows& rows, const Heatmap& map) {
  const std::string name = plain_formula(map.label);
  for (std::int64_t r = 0; r < map.rows; ++r) {
    for (std::int64_t c = 0; c < map.columns; ++c) {
      const float value = map.values[r * map.columns + c];
      const double x = map.x_begin + map.x_step * static_cast<double>(c);
      const double y = map.y_begin + map.y_step * static_cast<double>(r);
      rows.add("map", name, {field(x), field(y), field(value), "", ""});
    }
  }
}

void add_curve(Rows& rows, const Curve& curve) {
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    const bool band = !curve.low.empty();
    rows.add("curve", curve.name,
             {field(curve.x[i]), field(curve.y[i]), "", band ? field(curve.low[i]) : "",
              band ? field(curve.high[i]) : ""});
  }
}

std::string panel_rows(const Panel& panel) {
  Rows rows(panel);
  if (panel.map) add_map(rows, *panel.map);
  for (const Curve& c : panel.curves) add_curve(rows, c);
  for (const Region& r : panel.regions) {
    rows.add(r.vertical ? "region_x" : "region_y", r.label,
             {"", "", "", field(r.begin), field(r.end)});
  }
  for (const Rule& r : panel.rules) {
    rows.add(r.vertical ? "rule_x" : "rule_y", r.label, {"", "", field(r.at), "", ""});
  }
  for (const Note& n : panel.notes) rows.add("note", n.text, {field(n.x), field(n.y), "", "", ""});
  for (const Clock& c : panel.clocks) {
    rows.add("clock", c.label, {"", "", field(c.angle), "", field(c.length)});
  }
  return rows.text();
}

}  // namespace

std::string to_csv(const Figure& figure) {
  std::string out = "panel,kind,name,x,y,value,low,high\n";
  for (const Panel& panel : figure.panels) out += panel_rows(panel);
  return out;
}

}  // namespace posenc::draw
