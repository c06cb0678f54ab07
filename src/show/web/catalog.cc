#include "web/catalog.h"

#include <nlohmann/json.hpp>

#include "core/bind.h"
#include "draw/colors.h"
#include "encodings/catalog_json.h"
#include "plots/plot.h"
#include "posenc/core/version.h"
#include "posenc/encodings/spec.h"

namespace posenc::web {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value) { return Json::parse(to_json(value)); }

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

}  // namespace

std::string catalog_json() {
  Json json = posenc::catalog_json();
  json["version"] = POSENC_VERSION_STRING;
  for (const plots::KindInfo& kind : plots::plot_kinds()) json["plots"].push_back(kind_json(kind));
  json["request_fields"] = fields_json(describe_fields<plots::PlotRequest>());
  json["palette"]["light"] = palette_json(draw::Theme::kLight);
  json["palette"]["dark"] = palette_json(draw::Theme::kDark);
  return json.dump();
}

std::string spec_json(std::string_view text) {
  const Spec spec = parse_any_spec(text);
  Json json = {{"text", to_text(spec)}, {"hash", hash(spec)}, {"terms", Json::array()}};
  for (const Encoding& encoding : spec.encodings) {
    Value fields =
        std::visit([](const auto& e) { return Value(Value::Data(all_fields(e))); }, encoding);
    json["terms"].push_back({{"name", traits(encoding).name}, {"fields", json_of(fields)}});
  }
  return json.dump();
}

}  // namespace posenc::web
