// Hostile input for the reader of safetensors: an Error, or tensors that lie side by side, a header
// that reads back as it was written, and row plans that are permutations.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/round_trip.h"
#include "weights/checkpoint.h"
#include "weights/header.h"
#include "weights/layout_plan.h"

namespace {

using posenc::fuzz::require;
namespace weights = posenc::weights;

template <class Parse>
auto parsed(Parse parse) -> std::optional<decltype(parse())> {
  try {
    return parse();
  } catch (const posenc::Error& error) {
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
    return std::nullopt;
  }
}

void check_places(const weights::Header& header, std::uint64_t data_size) {
  std::uint64_t reached = 0;
  for (const weights::TensorInfo& tensor : header.tensors) {
    require(tensor.begin == reached);
    require(weights::byte_length(tensor.type, tensor.shape) == tensor.size());
    reached = tensor.end;
  }
  require(reached == data_size);
}

void check_round_trip(const weights::Header& header, std::uint64_t data_size) {
  const std::string bytes = weights::header_bytes(header, "again");
  const std::uint64_t length = weights::header_length(bytes, bytes.size() + data_size, "again");
  require(length + 8 == bytes.size());
  require(weights::parse_header(std::string_view(bytes).substr(8), data_size, "again") == header);
}

void check_plan(const weights::TensorPlan& plan) {
  std::uint64_t rows = plan.first_row;
  for (const weights::RowBlocks& blocks : plan.blocks) {
    std::vector<std::uint32_t> sorted = blocks.rows;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t r = 0; r < sorted.size(); ++r) require(sorted[r] == r);
    rows += blocks.rows.size() * blocks.count;
  }
  require(rows * plan.row_bytes <= plan.source.size());
}

void check_plans(const weights::Header& header, const weights::HeadShape& heads) {
  weights::TensorsByName tensors;
  for (const weights::TensorInfo& tensor : header.tensors) tensors.emplace(tensor.name, &tensor);
  const auto planner = parsed(
      [&] { return weights::LayoutPlanner(tensors, posenc::PairLayout::kHalf, {.heads = heads}); });
  if (!planner) return;
  for (const weights::TensorInfo& tensor : header.tensors) {
    if (const auto plan = parsed([&] { return planner->plan(tensor); })) check_plan(*plan);
  }
}

void check_header(std::string_view json, std::uint64_t data_size) {
  const auto header = parsed([&] { return weights::parse_header(json, data_size, "f"); });
  if (!header) return;
  check_places(*header, data_size);
  check_round_trip(*header, data_size);
  check_plans(*header, {.head_dim = 4});
  check_plans(*header, {.heads = 4, .kv_heads = 2});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  parsed([&] { return weights::parse_index(std::string(input), "index"); });
  parsed([&] { return weights::parse_expected(std::string(input), "shapes"); });
  const auto length = parsed([&] { return weights::header_length(input, size, "f"); });
  if (length) check_header(input.substr(8, *length), size - 8 - *length);
  // A length that the input cannot hold stands for the size of the data, so that tensors of any size
  // are met too.
  if (length || size < 8) return 0;
  std::uint64_t data_size = 0;
  for (std::size_t i = 8; i-- > 0;) data_size = data_size << 8U | data[i];
  check_header(input.substr(8), data_size);
  return 0;
}
