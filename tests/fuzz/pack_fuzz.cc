// Hostile packs: the text of pack.json, and headers of a tar. An Error of one line, or names that stay below
// their folder.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/plain_text.h"
#include "fuzz/memory_file.h"
#include "runs/pack_index.h"
#include "runs/tar_entries.h"

namespace {

using posenc::fuzz::require;
namespace runs = posenc::runs;

constexpr std::int64_t kMost = 1000;

void require_below(std::string_view name) {
  require(!name.empty() && name.front() != '/' && name.back() != '/');
  for (std::size_t at = name.find(".."); at != std::string_view::npos;
       at = name.find("..", at + 1)) {
    const bool begins = at == 0 || name[at - 1] == '/';
    const bool ends = at + 2 == name.size() || name[at + 2] == '/';
    require(!(begins && ends));
  }
}

template <class Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const posenc::Error& error) {
    require(posenc::one_line(error.what()) == error.what());
  }
}

void check_index(std::string_view text) {
  attempt([&] {
    const runs::PackIndex index = runs::parse_pack_index(text, "p.tar/pack.json", kMost);
    std::int64_t bytes = 0;
    for (const runs::ManifestFile& file : index.files) {
      require_below(file.name);
      bytes += file.size;
    }
    require(bytes >= 0 && bytes <= kMost && !runs::run_names(index).empty());
    require(runs::parse_pack_index(runs::pack_index_text(index), "again").files == index.files);
  });
}

// Mutations seldom keep a checksum right: what is inside is signed again here.
void check_signed(std::string_view text) {
  attempt([&] {
    const posenc::Value root = posenc::parse_json(text, "pack.json");
    const auto* members = root.get_if<posenc::Value::Map>();
    if (members == nullptr || members->empty()) return;
    check_index(runs::signed_json({members->begin(), members->end() - 1}));
  });
}

void check_tar(std::string_view bytes) {
  const posenc::fuzz::MemoryFile file(bytes);
  attempt([&] {
    for (const runs::TarEntry& entry : runs::list_tar(file.path(), "p.tar")) {
      require_below(entry.name);
      require(entry.size >= 0 &&
              entry.offset + entry.size <= static_cast<std::int64_t>(bytes.size()));
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_index(input);
  check_signed(input);
  check_tar(input);
  return 0;
}
