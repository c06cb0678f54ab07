// The closed set of encodings. After you add one here, compile errors name what is still missing
// (CONTRIBUTING.md, "Add an encoding").
#pragma once

#include <concepts>
#include <optional>
#include <variant>

#include "posenc/encodings/alibi.h"
#include "posenc/encodings/cope.h"
#include "posenc/encodings/fire.h"
#include "posenc/encodings/fox.h"
#include "posenc/encodings/grape_ap.h"
#include "posenc/encodings/kerple.h"
#include "posenc/encodings/key_bias.h"
#include "posenc/encodings/learned.h"
#include "posenc/encodings/none.h"
#include "posenc/encodings/path.h"
#include "posenc/encodings/relative.h"
#include "posenc/encodings/relative_2d.h"
#include "posenc/encodings/relative_query.h"
#include "posenc/encodings/rope.h"
#include "posenc/encodings/rotary.h"
#include "posenc/encodings/sink.h"
#include "posenc/encodings/sinusoidal.h"
#include "posenc/encodings/softcap.h"
#include "posenc/encodings/stick_breaking.h"
#include "posenc/encodings/t5.h"
#include "posenc/encodings/temperature.h"
#include "posenc/encodings/token_term.h"
#include "posenc/encodings/wall.h"
#include "posenc/encodings/xpos.h"

namespace posenc {

using Encoding = std::variant<None, Learned, Sinusoidal, Rope, Xpos, Temperature, Path, Wall, Alibi,
                              T5, Kerple, Fire, Relative, Relative2d, Cope, RelativeQuery, GrapeAp,
                              Fox, KeyBias, Sink, Softcap, StickBreaking>;

// A bias (site 3) of two coordinates of a position.
template <class E>
concept PlaneBias = requires {
  E::kReadsPlane;
};
// Any other bias: a formula of (head, i, j) and its gradient. Formulas of i - j alone are a DistanceBias.
template <class E>
concept BiasEncoding = E::kTraits.site == Site::kBias && !PlaneBias<E>;
// A rotation (site 2): make_rotary accepts it.
template <class E>
concept RotaryEncoding = requires(const E& config, const ModelShape& shape,
                                  const Lengths& lengths) {
  make_rotary(config, shape, lengths);
};

// Replaces the product of query and key by r_ij = scale k_j^T M_{j+1} ... M_i q_i, with a matrix M per token. Requires
// causal attention; a spec has at most one.
template <class E>
concept ChainEncoding = std::same_as<E, Path> || std::same_as<E, Wall>;

// The number of encodings of a site. Code that lists them one by one asserts it, so that a new
// encoding cannot be forgotten.
template <class... Configs>
constexpr int count_at(Site site, const std::variant<Configs...>* /*tag*/) {
  return (0 + ... + (Configs::kTraits.site == site ? 1 : 0));
}
constexpr int encodings_at(Site site) { return count_at(site, static_cast<Encoding*>(nullptr)); }

const Traits& traits(const Encoding& encoding);
bool is_rotary(const Encoding& encoding);
bool is_chain(const Encoding& encoding);
// Whether it only rotates queries and keys by their positions, so that rope() can apply it outside attention.
bool rotates_by_position(const Encoding& encoding);

// The rotation of a RotaryEncoding; throws Error for any other. `alpha`: see make_rotary.
Rotary rotary_of(const Encoding& encoding, const ModelShape& shape, const Lengths& lengths,
                 std::span<const double> alpha = {});

// Whether its frequencies are trained: they change between calls, so tables cannot be cached.
bool is_learnable(const Encoding& encoding);

// Templates prevent the implicit conversion to Encoding: an encoding without validate or parameters
// is then a compile error and not an infinite recursion.
template <std::same_as<Encoding> Any>
void validate(const Any& encoding, const ModelShape& shape) {
  std::visit([&](const auto& e) { validate(e, shape); }, encoding);
}
template <std::same_as<Encoding> Any>
std::vector<ParameterInfo> parameters(const Any& encoding, const ModelShape& shape) {
  return std::visit([&](const auto& e) { return parameters(e, shape); }, encoding);
}

// The extra inputs of attention that an encoding needs. Most encodings need none and declare none.
template <std::same_as<Encoding> Any>
std::vector<InputInfo> token_inputs(const Any& encoding, const ModelShape& shape) {
  return std::visit(
      [&](const auto& e) -> std::vector<InputInfo> {
        if constexpr (requires { token_inputs(e, shape); }) return token_inputs(e, shape);
        return {};
      },
      encoding);
}

// The form of a TokenTerm; empty for other encodings.
std::optional<TokenForm> token_form(const Encoding& encoding, double scale);

// The description of a name for `posenc list` and the tables of the documentation.
struct CatalogEntry {
  Traits traits;
  std::vector<FieldDoc> fields;
};
std::vector<CatalogEntry> encoding_catalog();
std::vector<CatalogEntry> schedule_catalog();
std::vector<CatalogEntry> axes_catalog();

// An encoding by name with every field at its default; throws for an unknown name.
Encoding default_encoding(std::string_view name);

}  // namespace posenc

// SPDX-License-Identifier: MIT
