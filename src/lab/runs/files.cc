#include "runs/files.h"

#include "runs/numbers.h"
#include "system/file_errors.h"

namespace posenc::runs {

namespace fs = std::filesystem;

void write_json(const fs::path& path, const Value& value) {
  atomic_write(path, to_json(without_non_finite(value)) + "\n");
}

Value read_json(const fs::path& path) {
  return with_non_finite(parse_json(read_file(path.string()), path.string()));
}

void remove_temporaries(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    const int error = is_temporary(name) ? remove_tree(folder / name) : 0;
    if (error != 0) throw write_error((folder / name).string(), error);
  }
}

}  // namespace posenc::runs
