#include "encodings/hf_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace posenc {

HfKeys::HfKeys(const Value& map, std::string scope) : map_(&map), scope_(std::move(scope)) {
  if (map.get_if<Value::Map>() != nullptr) return;
  throw error(ErrorKind::kWrongType, "", "must be a map", describe(map));
}

const Value* HfKeys::find(std::string_view key) const {
  const Value* value = map_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::int64_t HfKeys::require(Names names, const FieldRule& rule) const {
  if (const auto value = any<std::int64_t>(names, rule)) return *value;
  const std::string hint = names.size() == 1 ? "add it to the file"
                                             : fmt::format("looked for {}", fmt::join(names, ", "));
  throw error(ErrorKind::kMissingKey, names.front(), "is required", "", hint);
}

std::optional<HfKeys> HfKeys::child(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  return HfKeys(*value, std::string(key));
}

Error HfKeys::error(ErrorKind kind, std::string_view key, const std::string& rule,
                    const std::string& value, const std::string& hint) const {
  return {kind,
          {.scope = scope_, .key = std::string(key), .rule = rule, .value = value, .hint = hint}};
}

Error HfKeys::contradiction(std::string_view key, std::string_view other) const {
  return error(ErrorKind::kConflict, key,
               fmt::format("must agree with {} ({})", other, describe(*find(other))),
               describe(*find(key)), "keep one of the two");
}

}  // namespace posenc
