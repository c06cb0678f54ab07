#include "plots/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/value.h"
#include "posenc/kernels/ref/embedding.h"
#include "posenc/kernels/ref/rope.h"

namespace posenc::plots {
namespace {

// Streams of random numbers that must not meet: parameters, learned tables, queries and keys.
constexpr std::uint64_t kTableStream = 1000;

std::string schedule_label(const Rope& rope) {
  return std::visit(
      [](const auto& schedule) {
        using S = std::decay_t<decltype(schedule)>;
        if constexpr (requires { double{schedule.factor}; }) {
          return fmt::format("{} ×{}", S::kTraits.name, plain_number(schedule.factor));
        } else {
          return std::string(S::kTraits.name);
        }
      },
      rope.schedule);
}

// What tells one rope from another in a legend; other encodings are short as they stand.
std::string short_label(const Spec& spec) {
  const Rope plain;
  const auto* rope = spec.encodings.size() == 1 ? std::get_if<Rope>(&spec.encodings[0]) : nullptr;
  if (rope == nullptr) return to_text(spec);
  Rope rest = *rope;
  rest.theta = plain.theta;
  rest.schedule = plain.schedule;
  std::string label = to_text(Spec{{rest}});
  if (rope->theta != plain.theta) {
    std::vector<std::string> bases;
    for (const double theta : rope->theta) bases.push_back(plain_number(theta));
    label += fmt::format(", θ = {}", fmt::join(bases, "/"));
  }
  if (rope->schedule.index() != 0) label += ", " + schedule_label(*rope);
  return label;
}

// Two that look alike are told apart by their full texts, equal ones by numbers.
void make_unique(std::vector<NamedSpec>& specs) {
  std::vector<std::string> labels;
  for (const NamedSpec& s : specs) labels.push_back(s.label);
  for (NamedSpec& s : specs) {
    if (std::count(labels.begin(), labels.end(), s.label) > 1) s.label = to_text(s.spec);
  }
  for (auto s = specs.begin(); s != specs.end(); ++s) {
    const auto same = [&](const NamedSpec& other) { return other.spec == s->spec; };
    const auto earlier = std::count_if(specs.begin(), s, same);
    if (earlier > 0) s->label += fmt::format(" ({})", earlier + 1);
  }
}

// Known from how it starts: tables can be large, and a caption asks too.
bool starts_as_zero_table(const Encoding& encoding, const Init& init) {
  const bool table =
      std::holds_alternative<Relative>(encoding) || std::holds_alternative<T5>(encoding) ||
      std::holds_alternative<Cope>(encoding) || std::holds_alternative<Learned>(encoding);
  const bool zero = init.kind == Init::Kind::kConstant || init.kind == Init::Kind::kNormal;
  return table && zero && init.a == 0.0;
}

std::vector<std::vector<double>> rows_of(const std::vector<double>& flat, std::int64_t width) {
  std::vector<std::vector<double>> rows;
  for (auto at = flat.begin(); at != flat.end(); at += width) rows.emplace_back(at, at + width);
  return rows;
}

std::vector<std::vector<double>> embedded(const PlotRequest& request, const Spec& spec,
                                          std::int64_t length) {
  const std::vector<double> zeros(length * request.head_dim, 0.0);
  const ref::EmbeddingShape shape{.batch = 1, .tokens = length, .model_dim = request.head_dim};
  const ref::SpecParameters start = start_values(request, spec);
  return rows_of(ref::add_embeddings(spec, start, shape, zeros), request.head_dim);
}

}  // namespace

void refuse(ErrorKind kind, std::string key, std::string rule, std::string value,
            std::string hint) {
  throw Error(kind, {.scope = "plot",
                     .key = std::move(key),
                     .rule = std::move(rule),
                     .value = std::move(value),
                     .hint = std::move(hint)});
}

// Position vectors are as wide as a head, so that site 1 and site 2 can be compared.
ModelShape shape_of(const PlotRequest& request) {
  return {.head_dim = request.head_dim, .heads = request.heads, .model_dim = request.head_dim};
}

std::vector<NamedSpec> read_specs(const PlotRequest& request, std::size_t most) {
  const std::size_t count = request.encodings.size();
  if (count == 0 || count > most) {
    const std::string rule =
        most == 1 ? "must be one spec" : fmt::format("must be 1 to {} specs", most);
    refuse(ErrorKind::kWrongLength, "encodings", rule + " for " + request.kind,
           std::to_string(count), count == 0 ? "name one" : "draw the others in a second figure");
  }
  std::vector<NamedSpec> specs;
  for (const std::string& text : request.encodings) {
    Spec spec = parse_spec(text);
    validate(spec, shape_of(request));
    std::string label = short_label(spec);
    specs.push_back({std::move(spec), std::move(label)});
  }
  make_unique(specs);
  return specs;
}

std::string spec_list(const std::vector<NamedSpec>& specs) {
  std::vector<std::string> texts;
  for (const NamedSpec& named : specs) texts.push_back(to_text(named.spec));
  return fmt::format("{}", fmt::join(texts, "; "));
}

const Encoding& single_encoding(const PlotRequest& request, const NamedSpec& named,
                                std::string_view instead) {
  if (named.spec.encodings.size() == 1) return named.spec.encodings[0];
  refuse(ErrorKind::kUnsupported, "encodings",
         fmt::format("must name a single encoding for {}", request.kind),
         "'" + to_text(named.spec) + "'", fmt::format("take {}", instead));
}

void require_own_angles(const PlotRequest& request, const NamedSpec& named, const Rope& rope) {
  if (rope.angles == Rope::Angles::kPosition) return;
  const bool position = rope.angles == Rope::Angles::kInputPosition;
  refuse(ErrorKind::kUnsupported, "encodings",
         fmt::format("must rotate by positions for {}", request.kind),
         "'" + to_text(named.spec) + "'",
         fmt::format("its {} come from an input, rope.{}; take angles=position",
                     position ? "positions" : "angles", position ? "position" : "angles"));
}

Rotary single_rotary(const PlotRequest& request, const NamedSpec& named, const Lengths& lengths) {
  constexpr std::string_view kInstead = "rope or xpos, which rotate pairs of channels";
  const auto make = [&]<class E>(const E& e) -> Rotary {
    if constexpr (std::is_same_v<E, Rope>) require_own_angles(request, named, e);
    if constexpr (RotaryEncoding<E>) {
      return make_rotary(e, shape_of(request), lengths);
    } else {
      refuse(ErrorKind::kUnsupported, "encodings", fmt::format("must rotate for {}", request.kind),
             "'" + to_text(named.spec) + "'", fmt::format("take {}", kInstead));
    }
  };
  return std::visit(make, single_encoding(request, named, kInstead));
}

std::vector<std::vector<double>> position_vectors(const PlotRequest& request,
                                                  const NamedSpec& named, std::int64_t length,
                                                  Role role) {
  constexpr std::string_view kInstead =
      "sinusoidal, learned, rope or xpos, which give positions vectors";
  const Encoding& encoding = single_encoding(request, named, kInstead);
  if (traits(encoding).site == Site::kInput) return embedded(request, named.spec, length);
  if (!is_rotary(encoding)) {
    refuse(ErrorKind::kUnsupported, "encodings",
           fmt::format("must give positions vectors for {}", request.kind),
           "'" + to_text(named.spec) + "'", fmt::format("take {}", kInstead));
  }
  const Rotary rotary = single_rotary(request, named, {.sequence = length, .context = 0});
  const std::vector<double> vector = content_vector(request, 0);
  std::vector<double> x;
  for (std::int64_t t = 0; t < length; ++t) x.insert(x.end(), vector.begin(), vector.end());
  std::vector<std::int64_t> positions(length);
  std::iota(positions.begin(), positions.end(), 0);
  const ref::RopeShape shape{
      .batch = 1, .heads = 1, .tokens = length, .head_dim = request.head_dim};
  return rows_of(ref::rope(rotary, role, shape, x, positions), request.head_dim);
}

namespace {

// Initial values are drawn for each figure: a larger table is a mistake, not a plot.
void check_size(const std::vector<ParameterInfo>& infos, const Encoding& encoding) {
  constexpr std::int64_t kMost = 1 << 22;
  for (const ParameterInfo& info : infos) {
    if (info.count() <= kMost) continue;
    refuse(ErrorKind::kResource, "encodings", fmt::format("must have at most {} entries", kMost),
           fmt::format("{} of {}.{}", info.count(), traits(encoding).name, info.name),
           "take a smaller table");
  }
}

}  // namespace

ref::SpecParameters start_values(const PlotRequest& request, const Spec& spec) {
  ref::SpecParameters start;
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const Encoding& encoding = spec.encodings[e];
    Rng rng(static_cast<std::uint64_t>(request.seed), e);
    const std::vector<ParameterInfo> infos = parameters(encoding, shape_of(request));
    check_size(infos, encoding);
    Parameters values = initial_parameters(infos, rng);
    Rng table(static_cast<std::uint64_t>(request.seed), kTableStream + e);
    for (std::size_t p = 0; p < values.size(); ++p) {
      if (request.table_std == 0.0 || !starts_as_zero_table(encoding, infos[p].init)) continue;
      for (double& value : values[p]) value = request.table_std * table.normal();
    }
    start.push_back(std::move(values));
  }
  return start;
}

std::string parameters_text(const PlotRequest& request, const std::vector<NamedSpec>& specs) {
  bool random = false;
  std::vector<std::string> drawn;
  for (const NamedSpec& named : specs) {
    for (const SpecParameter& parameter : parameters(named.spec, shape_of(request))) {
      const Init& init = parameter.info.init;
      random = random || init.kind == Init::Kind::kUniform ||
               (init.kind == Init::Kind::kNormal && init.a != 0.0);
      const Encoding& encoding = named.spec.encodings[parameter.encoding];
      if (request.table_std == 0.0 || !starts_as_zero_table(encoding, init)) continue;
      drawn.push_back(parameter.info.name);
    }
  }
  std::string text;
  if (random) {
    text += fmt::format(" Learned parameters have their random initial values (seed {}).",
                        request.seed);
  }
  if (!drawn.empty()) {
    text += fmt::format(
        " Starting at zero, {} would show nothing: the values drawn have deviation {} (seed {}).",
        fmt::join(drawn, ", "), plain_number(request.table_std), request.seed);
  }
  return text;
}

std::vector<double> normal_vector(std::int64_t size, std::uint64_t seed, std::uint64_t stream) {
  Rng rng(seed, stream);
  std::vector<double> x(size);
  for (double& value : x) value = rng.normal();
  return x;
}

std::vector<double> content_vector(const PlotRequest& request, std::uint64_t stream) {
  if (request.content == Content::kOnes) {
    return std::vector<double>(static_cast<std::size_t>(request.head_dim), 1.0);
  }
  return normal_vector(request.head_dim, static_cast<std::uint64_t>(request.seed), stream);
}

std::string plain_number(double number) {
  constexpr double kDigits = 1e7;
  if (std::abs(number) < kDigits && std::nearbyint(number) == number) {
    return fmt::format("{:.0f}", number);
  }
  std::string text = number_text(number);
  const std::size_t exponent = text.find("e+");
  if (exponent == std::string::npos) return text;
  const std::size_t digits = text.find_first_not_of('0', exponent + 2);
  return text.substr(0, exponent + 1) + text.substr(digits);
}

double dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

std::vector<std::int64_t> chosen(std::string key, const std::vector<std::int64_t>& given,
                                 std::int64_t end, std::int64_t count) {
  for (const std::int64_t entry : given) {
    if (entry < 0 || entry >= end) {
      refuse(ErrorKind::kOutOfRange, std::move(key), fmt::format("must be in [0, {}]", end - 1),
             std::to_string(entry), "");
    }
  }
  if (!given.empty()) return given;
  std::vector<std::int64_t> spaced;
  const std::int64_t n = std::min(count, end);
  for (std::int64_t c = 0; c < n; ++c) spaced.push_back(n == 1 ? 0 : c * (end - 1) / (n - 1));
  return spaced;
}

std::vector<std::int64_t> thinned(std::int64_t last, std::int64_t most) {
  const std::int64_t step = std::max<std::int64_t>(1, last / most);
  std::vector<std::int64_t> points;
  for (std::int64_t n = 0; n < last; n += step) points.push_back(n);
  points.push_back(last);
  return points;
}

}  // namespace posenc::plots
