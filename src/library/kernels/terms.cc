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
  void operator()(const E& /*encoding*/) const {
    if constexpr (RotaryEncoding<E>) {
      terms.rotary.push_back(index);
    } else if constexpr (BiasEncoding<E>) {
      static_assert(DistanceBias<E>, "a bias that is not Toeplitz needs a modifier of its own");
      terms.biases.push_back(index);
    } else if constexpr (TokenTerm<E>) {
      if (terms.token) obstacle("more than one term per token");
      terms.token = index;
    } else if constexpr (std::same_as<E, Sink>) {
      terms.sinks.push_back(index);
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
  void operator()(const Softcap& softcap) const {
    if (terms.softcap) obstacle("more than one softcap");
    terms.softcap = softcap.cap;
  }
  void obstacle(std::string what) const {
    if (terms.obstacle.empty()) terms.obstacle = std::move(what);
  }
};

void check_groups(Terms& terms) {
  for (const std::size_t index : terms.rotary) {
    const auto* rope = std::get_if<Rope>(&terms.spec.encodings[index]);
    if (rope == nullptr || terms.kv_heads % std::ssize(rope->theta) == 0) continue;
    if (terms.obstacle.empty()) terms.obstacle = "theta per head with fewer key heads than thetas";
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
  for (const std::size_t index : terms.rotary) {
    terms.rotations.push_back(rotary_of(terms.spec.encodings[index], shape, lengths));
    terms.axes = std::max(terms.axes, terms.rotations.back().axes.axes);
  }
  return terms;
}

}  // namespace posenc
