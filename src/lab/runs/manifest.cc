#include "runs/manifest.h"

#include <fmt/format.h>

#include <charconv>

#include "core/value.h"
#include "posenc/core/version.h"
#include "system/files.h"
#include "system/sha256.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 8;

Error damaged(const std::string& path, const std::string& rule) {
  return file_error(ErrorKind::kIo, path, "", rule, "", "");
}

Value::Map members_of(const Manifest& manifest) {
  return {{"posenc", Value::of_string(POSENC_VERSION_STRING)},
          {"step", {Value::Data(manifest.step)}},
          {"score", manifest.score ? Value(Value::Data(*manifest.score)) : Value()},
          {"files", files_value(manifest.files)}};
}

std::optional<double> score_of(const Value& map) {
  const Value* score = map.find("score");
  if (score == nullptr) return std::nullopt;
  if (const double* number = score->get_if<double>()) return *number;
  if (const auto* number = score->get_if<std::int64_t>()) return static_cast<double>(*number);
  return std::nullopt;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) { return signed_json(members_of(manifest)); }

Manifest parse_manifest(std::string_view text, const std::string& path) {
  const Value root = parse_signed_json(text, path);
  Manifest manifest{read_whole(root, "step", path), score_of(root), read_files(root, path)};
  for (const ManifestFile& file : manifest.files) {
    if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos) {
      throw damaged(
          path, fmt::format("names {}, which is not in its folder", weights::in_quotes(file.name)));
    }
  }
  return manifest;
}

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:0{}}", kStepPrefix, step, kStepDigits);
}

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

Manifest check_sizes(const fs::path& checkpoint) {
  const std::string path = (checkpoint / kManifestFile).string();
  Manifest manifest = parse_manifest(read_file(path), path);
  if (step_name(manifest.step) != checkpoint.filename().string()) {
    throw damaged(path, fmt::format("is of step {}", manifest.step));
  }
  for (const ManifestFile& file : manifest.files) {
    const std::string name = (checkpoint / file.name).string();
    const auto size = static_cast<std::int64_t>(InputFile(name).size());
    if (size != file.size) {
      throw damaged(name, fmt::format("must have {} bytes but has {}", file.size, size));
    }
  }
  return manifest;
}

Manifest check_content(const fs::path& checkpoint) {
  Manifest manifest = check_sizes(checkpoint);
  for (const ManifestFile& file : manifest.files) {
    const std::string name = (checkpoint / file.name).string();
    if (sha256_of_file(name) != file.sha256) {
      throw damaged(name, "is altered: its SHA-256 is not that of the manifest");
    }
  }
  return manifest;
}

}  // namespace posenc::runs
