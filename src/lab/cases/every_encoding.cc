#include <algorithm>

#include "cases/table.h"
#include "posenc/encodings/spec.h"

namespace posenc::cases {
namespace {

bool names(const std::string& text, std::string_view encoding) {
  const Spec spec = parse_spec(text);
  return std::any_of(spec.encodings.begin(), spec.encodings.end(),
                     [&](const Encoding& e) { return traits(e).name == encoding; });
}

template <class Wanted>
std::vector<std::string> with_every(std::vector<std::string> specs, const Wanted& wanted) {
  for (const CatalogEntry& entry : encoding_catalog()) {
    const bool there = std::any_of(specs.begin(), specs.end(), [&](const std::string& text) {
      return names(text, entry.traits.name);
    });
    if (!there && wanted(default_encoding(entry.traits.name))) {
      specs.emplace_back(entry.traits.name);
    }
  }
  return specs;
}

}  // namespace

std::vector<std::string> with_every_encoding(std::vector<std::string> specs) {
  return with_every(std::move(specs), [](const Encoding& encoding) {
    const Site site = traits(encoding).site;
    return site != Site::kInput && site != Site::kNone;
  });
}

std::vector<std::string> with_every_distance_bias(std::vector<std::string> specs) {
  return with_every(std::move(specs), [](const Encoding& encoding) {
    return std::visit([]<class E>(const E& /*e*/) { return DistanceBias<E>; }, encoding);
  });
}

}  // namespace posenc::cases
