#include "web/catalog.h"

#include <nlohmann/json.hpp>

#include "core/bind.h"
#include "draw/colors.h"
#include "plots/plot.h"
#include "posenc/core/version.h"
#include "posenc/encodings/spec.h"

namespace posenc::web {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value) { return Json::parse(to_json(value)); }

Json fields_json(const std::vector<FieldDoc>& fields) {
  Json list = Json::array();
  for (const FieldDoc& field : fields) {
    list.push_back({{"name", field.name},
                    {"type", field.type},
                    {"default", field.default_value},
                    {"range", field.range},
                    {"doc", field.doc}});
  }
  return list;
}

Json entry_json(const CatalogEntry& entry) {
  const Traits& t = entry.traits;
  return {{"name", t.name},
          {"title", t.title},
          {"formula", t.formula},
          {"paper", t.paper},
          {"site", enum_name(t.site)},
          {"relative", t.relative},
          {"extrapolates", t.extrapolates},
          {"linear_attention", t.linear_attention},
          {"fields", fields_json(entry.fields)}};
}

Json entries_json(const std::vector<CatalogEntry>& entries) {
  Json list = Json::array();
  for (const CatalogEntry& entry : entries) list.push_back(entry_json(entry));
  return list;
}

Json kind_json(const plots::KindInfo& kind) {
  return {{"name", kind.name},
          {"doc", kind.doc},
          {"fields", kind.fields},
          {"defaults", json_of({Value::Data(all_fields(kind.defaults))})},
          {"max_length", kind.max_length},
          {"example", kind.example}};
}

Json palette_json(draw::Theme theme) {
  Json colors = Json::array();
  for (int i = 0; i < draw::kPaletteSize; ++i) {
    colors.push_back(draw::css(draw::palette(i, theme)));
  }
  return colors;
}

Spec read_spec(std::string_view spec) {
  const std::size_t first = spec.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos &&
                    (spec[first] == '[' || spec[first] == '{' || spec[first] == '"');
  return json ? parse_spec_json(spec) : parse_spec(spec);
}

}  // namespace

std::string catalog_json() {
  Json json;
  json["version"] = POSENC_VERSION_STRING;
  json["encodings"] = entries_json(encoding_catalog());
  json["schedules"] = entries_json(schedule_catalog());
  json["axes"] = entries_json(axes_catalog());
  for (const plots::KindInfo& kind : plots::plot_kinds()) json["plots"].push_back(kind_json(kind));
  json["request_fields"] = fields_json(describe_fields<plots::PlotRequest>());
  json["palette"]["light"] = palette_json(draw::Theme::kLight);
  json["palette"]["dark"] = palette_json(draw::Theme::kDark);
  return json.dump();
}

std::string spec_json(std::string_view text) {
  const Spec spec = read_spec(text);
  Json json = {{"text", to_text(spec)}, {"hash", hash(spec)}, {"terms", Json::array()}};
  for (const Encoding& encoding : spec.encodings) {
    Value fields =
        std::visit([](const auto& e) { return Value(Value::Data(all_fields(e))); }, encoding);
    json["terms"].push_back({{"name", traits(encoding).name}, {"fields", json_of(fields)}});
  }
  return json.dump();
}

}  // namespace posenc::web
