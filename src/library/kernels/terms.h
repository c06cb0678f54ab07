// A spec compiled for a shape: the role of each encoding in attention. Immutable and the same for every backend; state that
// is kept between calls belongs to the plan.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "posenc/encodings/spec.h"

namespace posenc {

struct Terms {
  Spec spec;
  ModelShape shape;
  std::int64_t kv_heads = 1;
  Lengths lengths;
  std::int64_t axes = 1;            // coordinates of a position: the most that an encoding reads
  std::vector<SpecInput> inputs;    // what AttentionCall::inputs holds
  std::string input_names;          // for messages
  std::vector<std::size_t> rotary;  // indices of site-2 encodings, in order
  std::vector<Rotary> rotations;  // of each of them; trained frequencies have their initial values
  bool rotates_values = false;    // one of them rotates values and outputs too
  std::vector<std::size_t> biases;            // of site 3
  std::optional<std::size_t> fire;            // of the one FIRE that is fused
  std::optional<std::size_t> cope;            // of the one CoPE that is fused
  std::optional<std::size_t> token;           // of the one token term that is fused
  std::optional<std::size_t> relative_query;  // of the one of queries that is fused
  std::vector<std::size_t> pairs;             // of terms that are computed apart from the tiles
  std::optional<std::size_t> chain;           // of steps, in place of the product of q and k
  std::vector<std::size_t> temperatures;
  std::vector<std::size_t> sinks;
  std::optional<double> softcap;  // of the one that is fused
  bool breaks_sticks = false;     // in place of the softmax
  std::string obstacle;           // why nothing is fused; empty when it is

  // The encoding at an index; null where there is no index, or an encoding of another type.
  template <class E>
  [[nodiscard]] const E* config(std::optional<std::size_t> index) const {
    return index ? std::get_if<E>(&spec.encodings[*index]) : nullptr;
  }
};

// The names of encodings for messages: "rope + xpos".
std::string joined_names(const Terms& terms, const std::vector<std::size_t>& indices);

// Encodings that can be one of Terms::pairs.
template <class E>
concept PairEncoding =
    PlaneBias<E> || TokenTerm<E> || std::same_as<E, RelativeQuery> || std::same_as<E, GrapeAp>;

// Calls `serve` with the encoding of one of Terms::pairs. It must accept each kind of them: a new kind does not compile
// wherever it is not served.
template <class Serve>
auto visit_pair(const Terms& terms, std::size_t index, const Serve& serve) {
  using Result = std::invoke_result_t<Serve, const GrapeAp&>;
  return std::visit(
      [&]<class E>([[maybe_unused]] const E& encoding) -> Result {
        if constexpr (PairEncoding<E>) {
          return serve(encoding);
        } else {
          throw std::logic_error("not a term of pairs");
        }
      },
      terms.spec.encodings[index]);
}

// What the temperatures multiply the query at a position of a head by; for a gradient, without the trained part of the
// encoding at index `without`.
double query_factor(const Terms& terms, const std::vector<Parameters>& parameters,
                    std::int64_t head, std::int64_t position,
                    std::optional<std::size_t> without = std::nullopt);

// Adds to the gradients of the parameters what a head's table of distances, from -before on, asks of its biases.
void add_distance_gradients(const Terms& terms, const std::vector<Parameters>& parameters,
                            std::int64_t head, std::int64_t before, std::span<const double> table,
                            std::vector<Parameters>& gradients);

// The Rope at index r of Terms::rotary where an input gives its angles; null for others.
const Rope* rope_of_input(const Terms& terms, std::size_t r);

// Throws Error where the spec does not fit the shape or has encodings of site 1.
Terms compile_terms(Spec spec, const ModelShape& shape, std::int64_t kv_heads, Lengths lengths);

}  // namespace posenc
