// One encoding, schedule or axes: what posenc list prints of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "posenc/encodings/encoding.h"

namespace posenc::cli {

// Parameters are counted at the shape of a small, common model, and the output says so.
inline constexpr ModelShape kExampleShape{.head_dim = 64, .heads = 12, .model_dim = 768};

struct Counted {
  std::vector<ParameterInfo> infos;
  std::int64_t trainable = 0;
};
Counted counted_parameters(std::string_view name);

// Trainable by default, on request (a field says so), or never.
std::string trainable_text(const CatalogEntry& entry);
// "2 query_key", or "-" for none.
std::string site_text(const Traits& traits);

enum class EntryKind { kEncoding, kSchedule, kAxes };
struct NamedEntry {
  EntryKind kind = EntryKind::kEncoding;
  CatalogEntry entry;
};
std::vector<NamedEntry> all_entries();
// An unknown name is an Error that suggests a known one.
NamedEntry find_entry(const std::string& name);

void print_entry(const NamedEntry& named);

}  // namespace posenc::cli
