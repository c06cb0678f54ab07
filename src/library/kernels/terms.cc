#include "kernels/terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "posenc/core/error.h"

namespace posenc {
namespace {

// Adds an encoding to the terms, or says what stands in the way of fusing it.
struct AddTerm {
  Terms& terms;
  std::size_t index;

  template <class E>
  void operator()(const E& encoding) const {
    static_cast<void>(encoding);
    if constexpr (RotaryEncoding<E>) {
      terms.rotary.push_back(index);
    } else if constexpr (std::same_as<E, Temperature>) {
      terms.temperatures.push_back(index);
    } else if constexpr (ChainEncoding<E>) {
      terms.chain = index;
    } else if constexpr (BiasEncoding<E>) {
      static_assert(DistanceBias<E>, "a bias that is not Toeplitz needs a modifier of its own");
      terms.biases.push_back(index);
    } else if constexpr (TokenTerm<E>) {
      add_token(encoding);
    } else if constexpr (std::same_as<E, Sink>) {
      terms.sinks.push_back(index);
    } else if constexpr (std::same_as<E, StickBreaking>) {
      terms.breaks_sticks = true;
    } else {
      static_assert(E::kTraits.site <= Site::kInput, "an encoding that no kernel would know of");
    }
  }
  void operator()(const Fire& /*fire*/) const {
    if (terms.fire) obstacle("more than one fire");
    terms.fire = index;
  }
  void operator()(const Cope& /*cope*/) const {
    if (terms.cope) obstacle("more than one cope");
    terms.cope = index;
  }
  void operator()(const RelativeQuery& relative) const {
    if (relative.of_keys()) return add_pair(relative);
    if (terms.relative_query) obstacle("more than one relative_query of queries");
    terms.relative_query = index;
  }
  void operator()(const Relative2d& relative) const {
    add_pair(relative);
    terms.axes = std::max<std::int64_t>(terms.axes, 2);
  }
  void operator()(const GrapeAp& grape) const { add_pair(grape); }
  void operator()(const Softcap& softcap) const {
    if (terms.softcap) obstacle("more than one softcap");
    terms.softcap = softcap.cap;
  }
  template <PairEncoding E>
  void add_pair(const E& /*encoding*/) const {
    terms.pairs.push_back(index);
  }
  template <TokenTerm E>
  void add_token(const E& encoding) const {
    if (encoding.token_form(1.0).both_sides) return add_pair(encoding);
    if (terms.token) obstacle("more than one term per token");
    terms.token = index;
  }
  void obstacle(std::string what) const {
    if (terms.obstacle.empty()) terms.obstacle = std::move(what);
  }
};

void check_groups(Terms& terms) {
  for (const std::size_t index : terms.rotary) {
    const auto* rope = terms.config<Rope>(index);
    if (rope == nullptr || terms.kv_heads % std::ssize(rope->theta) == 0) continue;
    if (terms.obstacle.empty()) terms.obstacle = "theta per head with fewer key heads than thetas";
  }
}

void check_values(Terms& terms) {
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    const Encoding& encoding = terms.spec.encodings[terms.rotary[r]];
    const auto* rope = std::get_if<Rope>(&encoding);
    if (rope == nullptr || !rope->values) continue;
    terms.rotates_values = true;
    if (!terms.obstacle.empty()) continue;
    if (is_learnable(encoding)) terms.obstacle = "values rotated by trained frequencies";
    if (terms.rotations[r].attention_factor != 1.0) {
      terms.obstacle = "values rotated by a schedule with an attention factor";
    }
  }
  const Cope* cope = terms.config<Cope>(terms.cope);
  if (terms.rotates_values && terms.obstacle.empty() && cope != nullptr &&
      cope->gate_source == Cope::GateSource::kValue) {
    terms.obstacle = "rotated values with gates from values";
  }
}

// Gates that see biases need them before the tile's own terms.
void check_gates(Terms& terms) {
  if (!terms.cope || !terms.config<Cope>(terms.cope)->gates_see_bias) return;
  for (const std::size_t index : terms.pairs) {
    if (terms.config<Relative2d>(index) == nullptr) continue;
    if (terms.obstacle.empty()) terms.obstacle = "gates that see a bias of two axes";
  }
}

void check_heads(const ModelShape& shape, std::int64_t kv_heads) {
  if (kv_heads >= 1 && shape.heads % kv_heads == 0) return;
  throw Error(ErrorKind::kOutOfRange,
              {.scope = "attention",
               .key = "kv_heads",
               .rule = fmt::format("must divide the heads ({})", shape.heads),
               .value = std::to_string(kv_heads),
               .hint = ""});
}

}  // namespace

const Rope* rope_of_input(const Terms& terms, std::size_t r) {
  const auto* rope = terms.config<Rope>(terms.rotary[r]);
  return rope != nullptr && rope->reads_input() ? rope : nullptr;
}

std::string joined_names(const Terms& terms, const std::vector<std::size_t>& indices) {
  std::string joined;
  for (const std::size_t i : indices) {
    joined += (joined.empty() ? "" : " + ") + std::string(traits(terms.spec.encodings[i]).name);
  }
  return joined;
}

double query_factor(const Terms& terms, const std::vector<Parameters>& parameters,
                    std::int64_t head, std::int64_t position, std::optional<std::size_t> without) {
  double product = 1.0;
  for (const std::size_t index : terms.temperatures) {
    const auto& config = *terms.config<Temperature>(index);
    product *= config.factor(static_cast<double>(position));
    if (config.trained() && index != without) product *= parameters[index][0][head];
  }
  return product;
}

Terms compile_terms(Spec spec, const ModelShape& shape, std::int64_t kv_heads, Lengths lengths) {
  require_attention_part("attention", spec);
  validate(spec, shape);
  check_heads(shape, kv_heads);
  Terms terms;
  terms.spec = std::move(spec);
  terms.shape = shape;
  terms.kv_heads = kv_heads;
  terms.lengths = lengths;
  terms.inputs = token_inputs(terms.spec, shape);
  terms.input_names = names_of(terms.inputs);
  for (std::size_t i = 0; i < terms.spec.encodings.size(); ++i) {
    std::visit(AddTerm{terms, i}, terms.spec.encodings[i]);
  }
  check_groups(terms);
  if (terms.breaks_sticks && terms.cope && terms.obstacle.empty()) {
    terms.obstacle = "stick_breaking with cope";
  }
  for (const std::size_t index : terms.rotary) {
    terms.rotations.push_back(rotary_of(terms.spec.encodings[index], shape, lengths));
    terms.axes = std::max(terms.axes, terms.rotations.back().axes.axes);
  }
  check_values(terms);
  check_gates(terms);
  return terms;
}

}  // namespace posenc
