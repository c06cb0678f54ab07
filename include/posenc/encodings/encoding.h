// The closed set of encodings. Adding one here makes the compiler list what it still lacks
// (CONTRIBUTING.md, "Add an encoding").
#pragma once

#include <variant>

#include "posenc/encodings/alibi.h"
#include "posenc/encodings/cope.h"
#include "posenc/encodings/fire.h"
#include "posenc/encodings/kerple.h"
#include "posenc/encodings/learned.h"
#include "posenc/encodings/none.h"
#include "posenc/encodings/relative.h"
#include "posenc/encodings/rope.h"
#include "posenc/encodings/sinusoidal.h"
#include "posenc/encodings/t5.h"
#include "posenc/encodings/xpos.h"

namespace posenc {

using Encoding =
    std::variant<None, Learned, Sinusoidal, Rope, Xpos, Alibi, T5, Kerple, Fire, Relative, Cope>;

// A bias of site 3: a formula of (head, i, j), and its gradient.
template <class E>
concept BiasEncoding = E::kTraits.site == Site::kBias;
// A transform of site 2: something that make_rotary understands.
template <class E>
concept RotaryEncoding = E::kTraits.site == Site::kQueryKey;

const Traits& traits(const Encoding& encoding);
void validate(const Encoding& encoding, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Encoding& encoding, const ModelShape& shape);

// What `posenc list` and the tables of the documentation show of a name that a spec may use.
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
