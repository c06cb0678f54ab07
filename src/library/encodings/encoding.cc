#include "posenc/encodings/encoding.h"

#include "core/bind.h"
#include "encodings/other_names.h"
#include "posenc/core/error.h"

namespace posenc {
namespace {

template <class... Configs>
std::vector<CatalogEntry> catalog_of(const std::variant<Configs...>* /*tag*/) {
  static_assert((... && !(Configs::kTraits.tex.empty() || Configs::kTraits.where.empty())),
                "kTraits needs tex and where: the formula that pages show");
  return {CatalogEntry{Configs::kTraits, describe_fields<Configs>()}...};
}

template <class... Configs>
std::variant<Configs...> default_of(const std::variant<Configs...>* tag, std::string_view name) {
  const auto names = alternative_names(tag);
  const FieldRule rule;
  const FieldContext context{"spec", "encoding", rule};
  const Value given = Value::of_string(std::string(name));
  refuse_other_name(given, context, names);
  const std::size_t index = read_choice(given, context, names);
  const std::array<std::variant<Configs...>, sizeof...(Configs)> defaults = {Configs{}...};
  return defaults[index];
}

}  // namespace

Rotary rotary_of(const Encoding& encoding, const ModelShape& shape, const Lengths& lengths,
                 std::span<const double> alpha) {
  return std::visit(
      [&]<class E>(const E& e) -> Rotary {
        if constexpr (requires { make_rotary(e, shape, lengths, alpha); }) {
          return make_rotary(e, shape, lengths, alpha);
        } else if constexpr (RotaryEncoding<E>) {
          return make_rotary(e, shape, lengths);
        } else {
          throw Error(ErrorKind::kUnsupported, {.scope = std::string(E::kTraits.name),
                                                .key = "encoding",
                                                .rule = "must be one that rotates",
                                                .value = std::string(E::kTraits.name),
                                                .hint = "take rope or xpos"});
        }
      },
      encoding);
}

const Traits& traits(const Encoding& encoding) {
  return std::visit(
      [](const auto& e) -> const Traits& { return std::decay_t<decltype(e)>::kTraits; }, encoding);
}

bool is_rotary(const Encoding& encoding) {
  return std::visit([]<class E>(const E& /*e*/) { return RotaryEncoding<E>; }, encoding);
}

bool is_chain(const Encoding& encoding) {
  return std::visit([]<class E>(const E& /*e*/) { return ChainEncoding<E>; }, encoding);
}

bool rotates_by_position(const Encoding& encoding) {
  const auto* rope = std::get_if<Rope>(&encoding);
  return is_rotary(encoding) && (rope == nullptr || !(rope->reads_input() || rope->values));
}

bool is_learnable(const Encoding& encoding) {
  const auto* rope = std::get_if<Rope>(&encoding);
  return rope != nullptr && std::holds_alternative<LearnableSchedule>(rope->schedule);
}

std::vector<CatalogEntry> encoding_catalog() { return catalog_of(static_cast<Encoding*>(nullptr)); }
std::vector<CatalogEntry> schedule_catalog() { return catalog_of(static_cast<Schedule*>(nullptr)); }
std::vector<CatalogEntry> axes_catalog() { return catalog_of(static_cast<Axes*>(nullptr)); }

Encoding default_encoding(std::string_view name) {
  return default_of(static_cast<const Encoding*>(nullptr), name);
}

std::optional<TokenForm> token_form(const Encoding& encoding, double scale) {
  return std::visit(
      [scale]<class E>(const E& e) -> std::optional<TokenForm> {
        if constexpr (TokenTerm<E>) return e.token_form(scale);
        return std::nullopt;
      },
      encoding);
}

}  // namespace posenc
