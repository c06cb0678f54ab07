#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "weights/header.h"
#include "weights/messages.h"

namespace posenc::weights {
namespace {

Error refusal(const std::string& path, const std::string& subject, const std::string& rule) {
  return file_error(ErrorKind::kOutOfRange, path, subject, rule, "", "");
}

// A JSON string; bytes that are not UTF-8 would make a file that no one can read.
std::string json_text(const std::string& text, const std::string& path) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw refusal(path, in_quotes(text), "must be UTF-8");
  }
}

void check_spec(const TensorSpec& tensor, const std::string& path) {
  const std::string name = in_quotes(tensor.name);
  if (tensor.name == "__metadata__") throw refusal(path, name, "is not a valid tensor name");
  if (tensor.name.size() > kLongestName) {
    throw refusal(path, name, fmt::format("must have at most {} bytes", kLongestName));
  }
  if (tensor.shape.size() > kHighestRank) {
    throw refusal(path, name, fmt::format("must have at most {} dimensions", kHighestRank));
  }
}

std::string metadata_json(const Metadata& metadata, const std::string& path) {
  if (metadata.size() > kMostMetadata) {
    throw refusal(path, "", fmt::format("must have at most {} entries of metadata", kMostMetadata));
  }
  std::string json;
  std::unordered_set<std::string_view> keys;
  for (const auto& [key, text] : metadata) {
    if (!keys.insert(key).second)
      throw refusal(path, "metadata " + in_quotes(key), "is given twice");
    json += (json.empty() ? "" : ",") + json_text(key, path) + ":" + json_text(text, path);
  }
  return json;
}

}  // namespace

std::vector<TensorInfo> place(std::vector<TensorSpec> tensors, const std::string& path) {
  if (tensors.size() > kMostTensors) {
    throw refusal(path, "", fmt::format("must have at most {} tensors", kMostTensors));
  }
  std::unordered_set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    check_spec(tensor, path);
    if (!names.insert(tensor.name).second)
      throw refusal(path, in_quotes(tensor.name), "is given twice");
  }
  std::vector<TensorInfo> placed;
  placed.reserve(tensors.size());
  std::uint64_t begin = 0;
  for (TensorSpec& tensor : tensors) {
    const auto length = byte_length(tensor.type, tensor.shape);
    std::uint64_t end = 0;
    if (!length || __builtin_add_overflow(begin, *length, &end)) {
      throw refusal(path, in_quotes(tensor.name),
                    "has a shape without a byte length, " + shape_text(tensor.shape));
    }
    placed.push_back({std::move(tensor), begin, end});
    begin = end;
  }
  return placed;
}

std::string header_bytes(const Header& header, const std::string& path) {
  std::string json = "{";
  const auto next = [&] { return json.size() > 1 ? "," : ""; };
  if (!header.metadata.empty())
    json += "\"__metadata__\":{" + metadata_json(header.metadata, path) + "}";
  for (const TensorInfo& tensor : header.tensors) {
    std::string shape = shape_text(tensor.shape);
    std::erase(shape, ' ');
    json += fmt::format(R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", next(),
                        json_text(tensor.name, path), element_type_name(tensor.type), shape,
                        tensor.begin, tensor.end);
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kLongestHeader) {
    throw refusal(path, "header", fmt::format("must have at most {} bytes", kLongestHeader));
  }
  std::string prefix;
  for (std::size_t i = 0; i < kPrefixLength; ++i) {
    prefix += static_cast<char>(json.size() >> (8 * i) & 0xffU);
  }
  return prefix + json;
}

}  // namespace posenc::weights
