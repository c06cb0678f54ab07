#include "encodings/catalog_json.h"

#include <nlohmann/json.hpp>

#include "posenc/encodings/encoding.h"

namespace posenc {
namespace {

using Json = nlohmann::ordered_json;

Json usual_json(const UsualRange& usual) {
  if (usual.high <= usual.low) return nullptr;
  return {{"low", usual.low}, {"high", usual.high}, {"log", usual.log}};
}

// Bounds that are infinite are written as null.
Json field_json(const FieldDoc& field) {
  const FieldRule& rule = field.rule;
  return {{"name", field.name},
          {"type", field.type},
          {"default", field.default_value},
          {"range", field.range},
          {"doc", field.doc},
          {"min", rule.min},
          {"max", rule.max},
          {"open_min", rule.open_min},
          {"even", rule.even},
          {"advanced", rule.advanced},
          {"usual", usual_json(rule.usual)},
          {"example", rule.example.empty() ? Json() : Json::parse(rule.example)},
          {"pairs", enum_name(rule.pairs)}};
}

Json entries_json(const std::vector<CatalogEntry>& entries) {
  Json list = Json::array();
  for (const CatalogEntry& entry : entries) {
    const Traits& t = entry.traits;
    list.push_back({{"name", t.name},
                    {"title", t.title},
                    {"formula", t.formula},
                    {"tex", t.tex},
                    {"where", t.where},
                    {"paper", t.paper},
                    {"site", enum_name(t.site)},
                    {"relative", t.relative},
                    {"extrapolates", t.extrapolates},
                    {"linear_attention", t.linear_attention},
                    {"fields", fields_json(entry.fields)}});
  }
  return list;
}

}  // namespace

Json fields_json(const std::vector<FieldDoc>& fields) {
  Json list = Json::array();
  for (const FieldDoc& field : fields) list.push_back(field_json(field));
  return list;
}

Json catalog_json() {
  return {{"encodings", entries_json(encoding_catalog())},
          {"schedules", entries_json(schedule_catalog())},
          {"axes", entries_json(axes_catalog())}};
}

}  // namespace posenc
