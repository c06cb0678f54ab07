#include "plots/plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/bind.h"
#include "plots/inputs.h"
#include "plots/kind_table.h"

namespace posenc::plots {
namespace {

const Kind& kind_entry(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kind_table()) {
    if (kind.info.name == name) return kind;
    names.push_back(kind.info.name);
  }
  refuse(ErrorKind::kUnknownKey, "kind", "must be a known kind of plot", fmt::format("'{}'", name),
         suggestion(name, names));
}

bool is_empty_list(const Value& value) {
  const auto* list = value.get_if<Value::List>();
  return list != nullptr && list->empty();
}

Value without_empty_lists(const Value& given) {
  const auto* map = given.get_if<Value::Map>();
  if (map == nullptr) return given;
  Value::Map members = *map;
  std::erase_if(members, [](const Member& member) { return is_empty_list(member.value); });
  return {Value::Data(std::move(members))};
}

// An empty list takes a kind's own list away, so that figures choose by themselves: theta of the specs.
struct EmptyLists {
  const Value& given;

  template <class Entry>
  void operator()(std::string_view name, std::vector<Entry>& field, const FieldRule&) const {
    const Value* value = given.find(name);
    if (value != nullptr && is_empty_list(*value)) field.clear();
  }
  template <class Field>
  void operator()(std::string_view /*name*/, Field& /*field*/, const FieldRule& /*rule*/) const {}
};

// Checks every range again, for requests that were filled by hand: writes the fields and reads them.
void check_ranges(const PlotRequest& request) {
  Value::Map map = all_fields(request);
  std::erase_if(map, [](const Member& member) { return is_empty_list(member.value); });
  const Value fields{Value::Data(std::move(map))};
  static_cast<void>(bind_config<PlotRequest>(fields, "plot"));
}

bool reads(const KindInfo& info, std::string_view field) {
  return std::find(info.fields.begin(), info.fields.end(), field) != info.fields.end();
}

void check_limits(const PlotRequest& request, const KindInfo& info) {
  if (reads(info, "length") && request.length > info.max_length) {
    refuse(ErrorKind::kResource, "length",
           fmt::format("must be at most {} for {}", info.max_length, info.name),
           std::to_string(request.length), "take a shorter one");
  }
  if (reads(info, "head") && request.head >= request.heads) {
    refuse(ErrorKind::kConflict, "head", fmt::format("must be below heads ({})", request.heads),
           std::to_string(request.head), "heads are counted from 0");
  }
}

void check_read(const Value& map, const KindInfo& info) {
  for (const Member& member : *map.get_if<Value::Map>()) {
    if (member.key == "kind" || reads(info, member.key)) continue;
    refuse(ErrorKind::kUnsupported, member.key, fmt::format("is not read by {}", info.name), "",
           fmt::format("it reads {}", fmt::join(info.fields, ", ")));
  }
}

}  // namespace

const std::vector<KindInfo>& plot_kinds() {
  static const std::vector<KindInfo> kKinds = [] {
    std::vector<KindInfo> infos;
    for (const Kind& kind : kind_table()) infos.push_back(kind.info);
    return infos;
  }();
  return kKinds;
}

const KindInfo& kind_info(std::string_view kind) { return kind_entry(kind).info; }

PlotRequest default_request(std::string_view kind) { return kind_info(kind).defaults; }

PlotRequest read_request(const Value& given) {
  const Value map = without_empty_lists(given);
  const Value* kind = map.find("kind");
  const auto* name = kind == nullptr ? nullptr : kind->get_if<std::string>();
  PlotRequest request = name == nullptr ? PlotRequest{} : default_request(*name);
  FieldReader reader(map, "plot");
  PlotRequest::visit_fields(request, reader);
  reader.finish();
  PlotRequest::visit_fields(request, EmptyLists{given});
  check_read(given, kind_info(request.kind));
  return request;
}

draw::Figure plot(const PlotRequest& request) {
  const Kind& kind = kind_entry(request.kind);
  check_ranges(request);
  check_limits(request, kind.info);
  draw::Figure figure = kind.draw(request);
  draw::validate(figure);
  return figure;
}

}  // namespace posenc::plots
