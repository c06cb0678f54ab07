// Hostile input for config.json: an Error, or layers whose specs round-trip and fit their shapes.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fuzz/round_trip.h"
#include "posenc/encodings/hf_config.h"

namespace {

std::optional<posenc::HfModel> parse(std::string_view input, posenc::Profile profile) {
  try {
    return posenc::parse_hf_config(input, profile);
  } catch (const posenc::Error&) {
    return std::nullopt;
  }
}

void check(const posenc::HfModel& model) {
  posenc::fuzz::require(!model.layers.empty());
  for (const posenc::HfLayer& layer : model.layers) {
    posenc::validate(layer.spec, layer.shape);
    posenc::fuzz::check_round_trip(layer.spec);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  using posenc::Profile;
  for (const Profile profile : {Profile::kHf, Profile::kVllm, Profile::kLlamaCpp}) {
    if (const auto model = parse(input, profile)) check(*model);
  }
  return 0;
}
