#include "runs/signed_files.h"

#include <fmt/format.h>

#include "system/file_errors.h"
#include "system/sha256.h"

namespace posenc::runs {
namespace {

Error damaged(const std::string& path, const std::string& rule) {
  return file_error(ErrorKind::kIo, path, "", rule, "", "");
}

template <class T>
const T& member(const Value& map, std::string_view key, const std::string& path) {
  const Value* value = map.find(key);
  const T* found = value == nullptr ? nullptr : value->get_if<T>();
  if (found == nullptr) throw damaged(path, fmt::format("lacks {}", key));
  return *found;
}

}  // namespace

std::string signed_json(Value::Map members) {
  const std::string checksum = sha256_hex(to_json({Value::Data(members)}));
  members.push_back({"sha256", Value::of_string(checksum)});
  return to_json({Value::Data(std::move(members))}) + "\n";
}

Value parse_signed_json(std::string_view text, const std::string& path) {
  Value root = parse_json(text, path);
  const auto* members = root.get_if<Value::Map>();
  if (members == nullptr || members->empty() || members->back().key != "sha256" ||
      signed_json({members->begin(), members->end() - 1}) != text) {
    throw damaged(path, "is altered: its checksum does not fit");
  }
  return root;
}

Value files_value(const std::vector<ManifestFile>& files) {
  Value::List list;
  for (const ManifestFile& file : files) {
    list.push_back({Value::Data(Value::Map{{"name", Value::of_string(file.name)},
                                           {"size", {Value::Data(file.size)}},
                                           {"sha256", Value::of_string(file.sha256)}})});
  }
  return {Value::Data(std::move(list))};
}

std::vector<ManifestFile> read_files(const Value& map, const std::string& path) {
  std::vector<ManifestFile> files;
  for (const Value& file : member<Value::List>(map, "files", path)) {
    files.push_back({member<std::string>(file, "name", path), read_whole(file, "size", path),
                     member<std::string>(file, "sha256", path)});
  }
  return files;
}

std::int64_t read_whole(const Value& map, std::string_view key, const std::string& path) {
  return member<std::int64_t>(map, key, path);
}

}  // namespace posenc::runs
