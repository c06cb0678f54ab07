// Hostile input for the JSON form of a spec: an Error, or a spec that round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  return posenc::fuzz::run([&] { return posenc::parse_spec_json(input); });
}
