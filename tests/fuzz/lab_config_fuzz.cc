// Hostile YAML where people write it: configs of experiments and files of sweeps. An Error of one line, or a
// config that its resolved form gives again.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/load.h"
#include "core/plain_text.h"
#include "fuzz/round_trip.h"
#include "sweep/plan.h"

namespace {

using posenc::fuzz::require;

template <class Parse>
auto parsed(Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const posenc::Error& error) {
    require(posenc::one_line(error.what()) == error.what());
    return std::nullopt;
  }
}

void check_config(std::string_view input) {
  const auto loaded = parsed([&] { return posenc::config::parse_config(input, "c.yaml"); });
  if (!loaded) return;
  require(loaded->config.name.find('/') == std::string::npos && !loaded->config.name.empty());
  const auto again = parsed(
      [&] { return posenc::config::parse_config(posenc::to_yaml(loaded->tree), "again.yaml"); });
  require(again && again->config == loaded->config && again->hash == loaded->hash);
}

// --set model.layers=4: the line after "--set" at the front of an input.
void check_override(std::string_view input) {
  posenc::Value tree(posenc::Value::Data(posenc::Value::Map{}));
  parsed([&] {
    posenc::config::apply_override(tree, std::string(input));
    return true;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kSet = "--set ";
  if (input.starts_with(kSet)) {
    check_override(input.substr(kSet.size()));
    return 0;
  }
  if (const auto tree = parsed([&] { return posenc::parse_yaml(input, "y"); })) {
    const std::string yaml = posenc::to_yaml(*tree);
    const auto again = parsed([&] { return posenc::parse_yaml(yaml, "again"); });
    require(again && posenc::to_yaml(*again) == yaml);
  }
  check_config(input);
  parsed([&] { return posenc::sweep::parse_sweep(input, "s.yaml"); });
  return 0;
}
