// Reads the frequency schedule from a map of rotation parameters: rope_type and the keys that it
// uses.
#pragma once

#include <optional>

#include "encodings/hf_keys.h"
#include "posenc/encodings/schedule.h"

namespace posenc {

// Values from outside the map.
struct HfScheduleContext {
  std::optional<std::int64_t> original_max;
  std::optional<std::int64_t> max_position;
  bool latent = false;    // latent attention also scales the softmax by YaRN's magnitude
  bool by_layer = false;  // the map is one of several, and overrides values outside it
};

// Refuses keys that no rope_type has, and those that this one has no use for.
Schedule read_hf_schedule(const HfKeys& map, const HfScheduleContext& context);

// Keys that a flat map of rotation parameters may have, for any rope_type.
bool is_rope_key(std::string_view key);

}  // namespace posenc
