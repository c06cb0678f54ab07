// Specs, and the formulas that need nothing but a spec.
#include "posenc/encodings/spec.h"

#include "capi/arguments.h"

using posenc::Spec;
using posenc::StatusCode;
using posenc::capi::guarded;
using posenc::capi::required;

namespace {

posenc_status parse(const char* op, const char* name, const char* text,
                    Spec (*parser)(std::string_view), posenc_spec** out) noexcept {
  return guarded([&] {
    posenc::capi::check_pointer(op, name, text);
    posenc_spec*& spec = required(op, "spec", out);
    spec = std::make_unique<posenc_spec>(posenc_spec{parser(text)}).release();
  });
}

int64_t write(const char* op, const posenc_spec* spec, std::string (*writer)(const Spec&),
              char* buffer, size_t capacity) noexcept {
  return guarded([&] {
    return posenc::capi::write_text(op, writer(required(op, "spec", spec).spec), buffer, capacity);
  });
}

// The first encoding of a kind.
template <class E>
const E& first_of(const char* op, const posenc_spec* spec) {
  for (const posenc::Encoding& encoding : required(op, "spec", spec).spec.encodings) {
    if (const E* found = std::get_if<E>(&encoding)) return *found;
  }
  const std::string name(E::kTraits.name);
  posenc::capi::fail(StatusCode::kInvalidArgument, "[%s] spec must have an encoding %s", op,
                     name.c_str());
}

}  // namespace

extern "C" {

posenc_status posenc_spec_from_text(const char* text, posenc_spec** spec) noexcept {
  return parse("spec_from_text", "text", text, posenc::parse_spec, spec);
}
posenc_status posenc_spec_from_json(const char* json, posenc_spec** spec) noexcept {
  return parse("spec_from_json", "json", json, posenc::parse_spec_json, spec);
}
posenc_status posenc_spec_from_yaml(const char* yaml, posenc_spec** spec) noexcept {
  return parse("spec_from_yaml", "yaml", yaml, posenc::parse_spec_yaml, spec);
}
void posenc_spec_free(posenc_spec* spec) noexcept { delete spec; }

posenc_status posenc_spec_at_length(const posenc_spec* spec, int64_t length,
                                    posenc_spec** fixed) noexcept {
  return guarded([&] {
    const char* op = "spec_at_length";
    const Spec& given = required(op, "spec", spec).spec;
    posenc_spec*& out = required(op, "fixed", fixed);
    posenc::capi::check_length(op, "length", length);
    out = std::make_unique<posenc_spec>(posenc_spec{at_length(given, {length})}).release();
  });
}

int64_t posenc_spec_to_text(const posenc_spec* spec, char* buffer, size_t capacity) noexcept {
  return write("spec_to_text", spec, posenc::to_text, buffer, capacity);
}
int64_t posenc_spec_to_json(const posenc_spec* spec, char* buffer, size_t capacity) noexcept {
  return write("spec_to_json", spec, posenc::to_json, buffer, capacity);
}
int64_t posenc_spec_to_yaml(const posenc_spec* spec, char* buffer, size_t capacity) noexcept {
  return write("spec_to_yaml", spec, posenc::to_yaml, buffer, capacity);
}
int64_t posenc_spec_hash(const posenc_spec* spec, char* buffer, size_t capacity) noexcept {
  return write("spec_hash", spec, posenc::hash, buffer, capacity);
}

posenc_status posenc_alibi_slopes(const posenc_spec* spec, int64_t heads, double* slopes,
                                  size_t count) noexcept {
  return guarded([&] {
    const char* op = "alibi_slopes";
    const auto& alibi = first_of<posenc::Alibi>(op, spec);
    posenc::capi::check_pointer(op, "slopes", slopes);
    posenc::capi::check_count(op, "slopes", static_cast<size_t>(std::max<int64_t>(heads, 0)),
                              count);
    const std::vector<double> all = posenc::alibi_slopes(alibi, heads);
    std::copy(all.begin(), all.end(), slopes);
  });
}

int64_t posenc_t5_bucket(const posenc_spec* spec, int64_t relative) noexcept {
  return guarded([&]() -> int64_t {
    const char* op = "t5_bucket";
    const auto& t5 = first_of<posenc::T5>(op, spec);
    posenc::validate(t5, posenc::ModelShape{});
    constexpr int64_t kFarthest = 2 * posenc::kLargestPosition;  // two positions apart
    if (relative < -kFarthest || relative > kFarthest) {
      posenc::capi::fail(StatusCode::kOutOfRange,
                         "[%s] relative must be in [-2^54, 2^54] but got %lld", op,
                         static_cast<long long>(relative));
    }
    return posenc::t5_bucket(t5, relative);
  });
}

}  // extern "C"
