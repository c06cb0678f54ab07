#include "runs/attention_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "core/bind.h"
#include "posenc/core/tensor_view.h"
#include "posenc/weights/safetensors.h"
#include "runs/files.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;
using weights::ElementType;

constexpr const char* kExampleKey = "posenc.attention";
constexpr std::string_view kEnding = ".safetensors";
constexpr const char* kAgain = "remove it and look again: posenc attention";

// The tensors of a layer: how they are named and stored, and the largest value that makes sense.
struct Part {
  const char* name;
  std::vector<float> AttentionLayer::*values;
  ElementType type;
  float largest;
};
constexpr std::array<Part, 3> kParts = {
    {{"weights", &AttentionLayer::weights, ElementType::kF16, 1.0f},
     {"cope.gates", &AttentionLayer::gates, ElementType::kF16, 1.0f},
     {"cope.positions", &AttentionLayer::positions, ElementType::kF32, 65536.0f}}};

std::string tensor_name(std::size_t layer, const Part& part) {
  return fmt::format("layer.{}.{}", layer, part.name);
}

Error record_error(const fs::path& path, const std::string& what, const std::string& rule,
                   const std::string& value = "") {
  return file_error(ErrorKind::kConflict, path.string(), what, rule, value, kAgain);
}

void require_count(const fs::path& path, const char* what, std::size_t count, std::int64_t wanted) {
  if (static_cast<std::int64_t>(count) == wanted) return;
  throw record_error(path, what, fmt::format("must be one per token, {}", wanted),
                     std::to_string(count));
}

void check_example(const fs::path& path, const AttentionExample& example) {
  require_count(path, "tokens", example.tokens.size(), example.length);
  require_count(path, "token_ids", example.token_ids.size(), example.length);
  if (example.encodings.empty()) throw record_error(path, "encodings", "must name a layer");
  if (example.instruction_begin > example.instruction_end ||
      example.instruction_end > example.length) {
    throw record_error(path, "instruction",
                       fmt::format("must lie within {} tokens", example.length),
                       fmt::format("[{}, {})", example.instruction_begin, example.instruction_end));
  }
  for (const ScoredPlace& place : example.scored) {
    if (place.position < example.length) continue;
    throw record_error(path, "scored", fmt::format("must lie within {} tokens", example.length),
                       std::to_string(place.position));
  }
}

void check_values(const fs::path& path, const std::string& tensor, const Part& part,
                  const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0.0f && values[i] <= part.largest) continue;  // NaN is neither
    throw record_error(path, tensor, fmt::format("must be in [0, {}]", part.largest),
                       fmt::format("{} at {}", values[i], i));
  }
}

void check_layers(const fs::path& path, const AttentionRecord& record) {
  if (record.heads < 1) throw record_error(path, "heads", "must be >= 1");
  if (record.layers.size() != record.example.encodings.size()) {
    throw record_error(
        path, "layers",
        fmt::format("must be as many as encodings, {}", record.example.encodings.size()),
        std::to_string(record.layers.size()));
  }
  const auto cells =
      static_cast<std::size_t>(record.heads * record.example.length * record.example.length);
  for (std::size_t l = 0; l < record.layers.size(); ++l) {
    const AttentionLayer& layer = record.layers[l];
    for (const Part& part : kParts) {
      const std::vector<float>& values = layer.*part.values;
      const bool needed = part.values == &AttentionLayer::weights || layer.has_cope();
      if (values.size() != (needed ? cells : 0)) {
        throw record_error(path, tensor_name(l, part),
                           fmt::format("must have {} numbers", needed ? cells : 0),
                           std::to_string(values.size()));
      }
      check_values(path, tensor_name(l, part), part, values);
    }
  }
}

std::vector<std::byte> stored(const std::vector<float>& values, ElementType type) {
  if (type == ElementType::kF32) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), float_to_float16);
  const auto bytes = std::as_bytes(std::span(halves));
  return {bytes.begin(), bytes.end()};
}

std::vector<float> restored(const std::vector<std::byte>& bytes, ElementType type) {
  if (type == ElementType::kF32) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> halves(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(halves.data(), bytes.data(), bytes.size());
  std::vector<float> values(halves.size());
  std::transform(halves.begin(), halves.end(), values.begin(), float16_to_float);
  return values;
}

AttentionExample example_of(const weights::Reader& file) {
  const fs::path path = file.path();
  const std::string* text = weights::find_metadata(file.metadata(), kExampleKey);
  if (text == nullptr) {
    throw file_error(ErrorKind::kMissingKey, file.path(), "",
                     fmt::format("has no {} in its metadata", kExampleKey), "",
                     "it is not an attention record");
  }
  auto example = bind_config<AttentionExample>(parse_json(*text, file.path()), file.path());
  check_example(path, example);
  return example;
}

std::vector<float> read_part(const weights::Reader& file, const std::string& name, const Part& part,
                             const weights::Shape& shape) {
  const weights::TensorInfo& tensor = file.at(name);
  if (tensor.type != part.type) {
    throw record_error(file.path(), name,
                       fmt::format("must be {}", weights::element_type_name(part.type)),
                       std::string(weights::element_type_name(tensor.type)));
  }
  if (tensor.shape != shape) {
    throw record_error(file.path(), name, "must be " + weights::shape_text(shape),
                       weights::shape_text(tensor.shape));
  }
  return restored(file.read(tensor), part.type);
}

// Every tensor has been asked for, or it is none of this format.
void require_known(const weights::Reader& file, const std::set<std::string>& known) {
  for (const weights::TensorInfo& tensor : file.tensors()) {
    if (known.count(tensor.name) != 0) continue;
    throw record_error(file.path(), weights::in_quotes(tensor.name),
                       "is not a tensor of a record with these layers");
  }
}

}  // namespace

std::int64_t attention_bytes(std::int64_t heads, std::int64_t tokens, bool cope) {
  std::int64_t per_cell = 0;
  for (const Part& part : kParts) {
    const bool stored_here = cope || part.values == &AttentionLayer::weights;
    per_cell += stored_here ? weights::element_bits(part.type) / 8 : 0;
  }
  return heads * tokens * tokens * per_cell;
}

void write_attention(const fs::path& path, const AttentionRecord& record) {
  check_example(path, record.example);
  check_layers(path, record);
  const std::int64_t T = record.tokens();
  std::vector<weights::TensorSpec> tensors;
  std::vector<std::vector<std::byte>> bytes;
  for (std::size_t l = 0; l < record.layers.size(); ++l) {
    for (const Part& part : kParts) {
      const std::vector<float>& values = record.layers[l].*part.values;
      if (values.empty()) continue;
      tensors.push_back({tensor_name(l, part), part.type, {record.heads, T, T}});
      bytes.push_back(stored(values, part.type));
    }
  }
  const std::string own = folder_of(path.string());
  NewFolders folders(own);
  const Descriptor folder = open_own_folder(own);
  const fs::path place = inside(folder, path.filename().string());
  try {
    weights::Writer writer(
        place.string(), std::move(tensors),
        {{kExampleKey, to_json(Value(Value::Data(all_fields(record.example))))}});
    for (const auto& tensor : bytes) writer.append(tensor);
    writer.commit();
  } catch (const Error& e) {
    if (e.scope() != place.string()) throw;
    throw file_error(e.kind(), path.string(), e.key(), e.rule(), e.value(), e.hint());
  }
  folders.keep();
}

AttentionRecord read_attention(const fs::path& path) {
  const weights::Reader file(path.string());
  AttentionRecord record;
  record.example = example_of(file);
  const weights::Shape& first = file.at(tensor_name(0, kParts[0])).shape;
  record.heads = first.empty() ? 0 : first.front();
  const weights::Shape shape = {record.heads, record.tokens(), record.tokens()};
  std::set<std::string> known;
  for (std::size_t l = 0; l < record.example.encodings.size(); ++l) {
    AttentionLayer& layer = record.layers.emplace_back();
    const bool cope = file.find(tensor_name(l, kParts[1])) != nullptr;
    for (const Part& part : kParts) {
      if (!cope && part.values != &AttentionLayer::weights) continue;
      known.insert(tensor_name(l, part));
      layer.*part.values = read_part(file, tensor_name(l, part), part, shape);
    }
  }
  require_known(file, known);
  check_layers(path, record);
  return record;
}

AttentionExample read_attention_example(const fs::path& path) {
  return example_of(weights::Reader(path.string()));
}

fs::path attention_folder(const fs::path& run) { return run / "attention"; }

fs::path attention_path(const fs::path& run, std::string_view axis, std::int64_t length,
                        std::int64_t sample, bool best) {
  return attention_folder(run) /
         fmt::format("{}-T{}-sample{}{}{}", axis, length, sample, best ? "-best" : "", kEnding);
}

std::vector<fs::path> list_attention(const fs::path& run) {
  std::vector<fs::path> paths;
  for (const std::string& name : names_in(attention_folder(run))) {
    if (fs::path(name).extension() == kEnding) paths.push_back(attention_folder(run) / name);
  }
  return paths;
}

}  // namespace posenc::runs
