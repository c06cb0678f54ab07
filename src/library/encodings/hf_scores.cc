#include "encodings/hf_scores.h"

#include <cmath>

namespace posenc {
namespace {

constexpr FieldRule kPositiveRule{.doc = "", .min = 0, .max = 1e6, .open_min = true};
constexpr FieldRule kGrowthRule{.doc = "", .min = 0, .max = 1e3};
constexpr FieldRule kFloorRule{.doc = "", .min = 1, .max = 1e15};

// Some files have a whole number, not 0, where others have true.
bool is_on(const HfKeys& top, const char* key) {
  const Value* value = top.find(key);
  if (value == nullptr) return true;
  if (const auto* number = value->get_if<std::int64_t>()) return *number != 0;
  return *top.get<bool>(key);
}

}  // namespace

std::optional<Temperature> read_llama4_temperature(const HfKeys& top, const HfFamily& family) {
  if (!family.temperature || !is_on(top, "attn_temperature_tuning")) return std::nullopt;
  Temperature temperature;
  temperature.scale = top.get<double>("attn_scale", kGrowthRule).value_or(0.1);
  temperature.floor = top.get<double>("floor_scale", kFloorRule).value_or(8192.0);
  return temperature;
}

std::optional<Temperature> read_mistral_temperature(const HfKeys& top) {
  auto map = top.child("rope_parameters");
  if (!map) map = top.child("rope_scaling");
  if (!map) return std::nullopt;
  const auto growth = map->get<double>("llama_4_scaling_beta", kGrowthRule);
  if (!growth) return std::nullopt;
  const char* key = "original_max_position_embeddings";
  auto floor = map->get<double>(key, kFloorRule);
  if (!floor) floor = top.get<double>(key, kFloorRule);
  if (!floor) {
    throw map->error(ErrorKind::kMissingKey, key, "is required next to llama_4_scaling_beta", "",
                     "add it");
  }
  Temperature temperature;
  temperature.scale = *growth;
  temperature.floor = *floor;
  temperature.offset = 0;
  return temperature;
}

std::optional<Softcap> read_softcap(const HfKeys& top, const HfFamily& family) {
  const char* key = "attn_logit_softcapping";
  if (family.softcap == 0.0 || (top.mentions(key) && top.find(key) == nullptr)) return std::nullopt;
  Softcap softcap;
  softcap.cap =
      top.get<double>(key, FieldRule{.doc = "", .min = 1e-3, .max = 1e6}).value_or(family.softcap);
  return softcap;
}

std::optional<double> read_scale(const HfKeys& top, const HfFamily& family, std::int64_t head_dim) {
  if (family.scale_key.empty()) return std::nullopt;
  const double number =
      top.get<double>(family.scale_key, kPositiveRule).value_or(family.scale_default);
  const double scale = std::pow(number, family.scale_power);
  const double usual = std::pow(static_cast<double>(head_dim), -0.5);
  return scale == usual ? std::nullopt : std::optional(scale);
}

}  // namespace posenc
