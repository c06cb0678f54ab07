#include "sweep/evidence_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <sstream>

#include "core/bind.h"
#include "posenc/encodings/spec.h"

namespace posenc::sweep {
namespace {

// A field whose content is read by separate code.
struct Subtree {
  const Value* value = nullptr;
};
void read_field(const Value& value, const FieldContext& /*context*/, Subtree& field) {
  field.value = &value;
}

struct FileFields {
  std::string question;
  std::string base;
  Subtree parts;
  Subtree published;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("question", self.question, FieldRule{.required = true});
    visit("base", self.base, FieldRule{});
    visit("parts", self.parts, FieldRule{.required = true});
    visit("published", self.published, FieldRule{});
  }
};

struct PartFields {
  std::string about;
  std::string base;
  Subtree grid;
  Subtree also;
  Subtree exclude;
  std::string bench;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("about", self.about, FieldRule{.required = true});
    visit("base", self.base, FieldRule{});
    visit("grid", self.grid, FieldRule{});
    visit("also", self.also, FieldRule{});
    visit("exclude", self.exclude, FieldRule{});
    visit("bench", self.bench, FieldRule{});
  }
};

struct RowFields {
  std::string name;
  std::string encoding;
  Subtree values;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("name", self.name, FieldRule{.required = true});
    visit("encoding", self.encoding, FieldRule{});
    visit("values", self.values, FieldRule{.required = true});
  }
};

struct TableFields {
  std::string source;
  std::string part;
  Metric metric = Metric::kAccuracy;
  bool single_answers = false;
  Subtree where;
  Subtree rows;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("source", self.source, FieldRule{.required = true});
    visit("part", self.part, FieldRule{.required = true});
    visit("metric", self.metric, FieldRule{.required = true});
    visit("single_answers", self.single_answers, FieldRule{});
    visit("where", self.where, FieldRule{});
    visit("rows", self.rows, FieldRule{.required = true});
  }
};

class EvidenceReader {
 public:
  explicit EvidenceReader(EvidenceFile& file) : file_(file) {}

  void read(const Value& tree) {
    const auto fields = bind_config<FileFields>(tree, file_.path);
    require_text(fields.question, "question", *tree.find("question"));
    file_.question = fields.question;
    for (const Member& member : entries<Value::Map>(*fields.parts.value, "parts", "a map")) {
      read_part(member, fields.base);
    }
    if (fields.published.value == nullptr) return;
    const auto& tables = entries<Value::List>(*fields.published.value, "published", "a list");
    for (std::size_t i = 0; i < tables.size(); ++i) {
      read_table(tables[i], fmt::format("published[{}].", i));
    }
  }

 private:
  [[nodiscard]] Error error(ErrorKind kind, const std::string& key, const std::string& rule,
                            const Value& value, const std::string& hint) const {
    return {kind,
            {.scope = file_.path,
             .key = key,
             .rule = rule + mark_text(value.mark()),
             .value = describe(value),
             .hint = hint}};
  }

  void require_text(const std::string& text, const std::string& key, const Value& value) const {
    if (!text.empty()) return;
    throw error(ErrorKind::kOutOfRange, key, "must not be empty", value, "write it down");
  }

  template <class Entries>
  const Entries& entries(const Value& value, const std::string& key, const char* kind) const {
    const auto* found = value.get_if<Entries>();
    if (found != nullptr && !found->empty()) return *found;
    throw error(ErrorKind::kWrongType, key, fmt::format("must be {} with entries", kind), value,
                "see src/lab/sweep/evidence_file.h for the format");
  }

  // A part is a folder below runs/evidence and docs/evidence.
  void check_part_name(const Member& member) const {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    const bool fits = member.key.find_first_not_of(kLetters) == std::string::npos;
    if (fits && !member.key.empty() && member.key.front() != '-') return;
    throw Error(ErrorKind::kOutOfRange,
                {.scope = file_.path,
                 .key = "parts." + member.key,
                 .rule = "is not a name of a folder" + mark_text(member.key_mark),
                 .value = "",
                 .hint = "use lower-case letters, digits, - and _"});
  }

  void read_part(const Member& member, const std::string& shared_base) {
    check_part_name(member);
    const std::string key = "parts." + member.key;
    const auto fields = bind_config<PartFields>(member.value, file_.path, key + ".");
    if (!fields.bench.empty()) return read_measured(member, fields);
    const std::string base = fields.base.empty() ? shared_base : fields.base;
    if (base.empty()) {
      throw error(ErrorKind::kMissingKey, key + ".base", "is required", member.value,
                  "name a lab config here, or for all parts at the top");
    }
    const std::filesystem::path folder = std::filesystem::path(file_.path).parent_path();
    file_.parts.push_back(
        {.name = member.key,
         .about = fields.about,
         .sweep = {.path = file_.path,
                   .base = folder / base,
                   .out = std::filesystem::path("runs/evidence") / file_.name / member.key,
                   .points = read_points(member.value, file_.path, key + ".")}});
  }

  void read_measured(const Member& member, const PartFields& fields) {
    for (const char* other : {"base", "grid", "also", "exclude"}) {
      const Value* value = member.value.find(other);
      if (value == nullptr) continue;
      throw error(ErrorKind::kConflict, "parts." + member.key + "." + other,
                  "belongs to a sweep, and this part has bench", *value, "remove one of them");
    }
    std::istringstream text(fields.bench);
    file_.measured.push_back(
        {.name = member.key,
         .about = fields.about,
         .words = {std::istream_iterator<std::string>(text), {}},
         .out = std::filesystem::path("runs/evidence") / file_.name / (member.key + ".json")});
  }

  void read_table(const Value& tree, const std::string& prefix) {
    const auto fields = bind_config<TableFields>(tree, file_.path, prefix);
    require_text(fields.source, prefix + "source", *tree.find("source"));
    check_part(fields.part, prefix + "part", *tree.find("part"));
    if (fields.metric == Metric::kTokensPerSecond) {
      throw error(ErrorKind::kUnsupported, prefix + "metric", "is not a metric of an evaluation",
                  *tree.find("metric"), "take accuracy, error, bits_per_byte or bits_per_token");
    }
    runs::PublishedTable table{.source = fields.source,
                               .part = fields.part,
                               .metric = fields.metric,
                               .single_answers = fields.single_answers,
                               .where = {},
                               .rows = {}};
    if (fields.where.value != nullptr) table.where = read_where(*fields.where.value, prefix);
    const auto& rows = entries<Value::List>(*fields.rows.value, prefix + "rows", "a list");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      table.rows.push_back(read_row(rows[i], table.metric, fmt::format("{}rows[{}].", prefix, i)));
    }
    file_.published.push_back(std::move(table));
  }

  void check_part(const std::string& name, const std::string& key, const Value& value) const {
    std::vector<std::string_view> known;
    for (const EvidencePart& part : file_.parts) known.push_back(part.name);
    if (std::find(known.begin(), known.end(), name) != known.end()) return;
    throw error(ErrorKind::kUnknownKey, key, "is not a part of this file", value,
                suggestion(name, known));
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> read_where(
      const Value& value, const std::string& prefix) const {
    std::vector<std::pair<std::string, std::string>> where;
    for (const Member& member : entries<Value::Map>(value, prefix + "where", "a map")) {
      const auto* word = member.value.get_if<std::string>();
      where.emplace_back(member.key, word != nullptr ? *word : to_json(member.value));
    }
    return where;
  }

  [[nodiscard]] runs::PublishedRow read_row(const Value& tree, Metric metric,
                                            const std::string& prefix) const {
    const auto fields = bind_config<RowFields>(tree, file_.path, prefix);
    require_text(fields.name, prefix + "name", *tree.find("name"));
    if (!fields.encoding.empty()) check_encoding(fields.encoding, prefix, *tree.find("encoding"));
    runs::PublishedRow row{.name = fields.name, .encoding = fields.encoding, .values = {}};
    const std::string key = prefix + "values";
    for (const Member& member : entries<Value::Map>(*fields.values.value, key, "a map")) {
      row.values.push_back(read_value(member, metric, key));
    }
    return row;
  }

  void check_encoding(const std::string& text, const std::string& prefix,
                      const Value& value) const {
    try {
      (void)parse_spec(text);
    } catch (const Error& e) {
      throw error(e.kind(), prefix + "encoding", "is not an encoding", value, e.what());
    }
  }

  // "sparse", or "sparse@512".
  [[nodiscard]] runs::PublishedValue read_value(const Member& member, Metric metric,
                                                const std::string& key) const {
    const std::string name = key + "." + member.key;
    const std::size_t at = std::min(member.key.find('@'), member.key.size());
    runs::PublishedValue value{.axis = member.key.substr(0, at)};
    const char* end = member.key.data() + member.key.size();
    bool fits = !value.axis.empty();
    if (fits && at < member.key.size()) {
      const auto length = std::from_chars(member.key.data() + at + 1, end, value.length);
      fits = length.ec == std::errc() && length.ptr == end && value.length > 0;
    }
    if (!fits) {
      throw error(ErrorKind::kSyntax, name, "must be named AXIS or AXIS@LENGTH", member.value,
                  "for example sparse or longer@1024");
    }
    const FieldRule rule{.min = 0.0, .max = traits_of(metric).share ? 100.0 : 1e6};
    posenc::read_field(member.value, {file_.path, name, rule}, value.value);
    return value;
  }

  EvidenceFile& file_;
};

}  // namespace

const EvidencePart& EvidenceFile::part(const std::string& part_name) const {
  std::vector<std::string_view> known;
  for (const EvidencePart& part : parts) {
    if (part.name == part_name) return part;
    known.push_back(part.name);
  }
  for (const MeasuredPart& part : measured) known.push_back(part.name);
  throw Error(ErrorKind::kUnknownKey, {.scope = path,
                                       .key = "--part",
                                       .rule = "must be a part of the file",
                                       .value = "'" + part_name + "'",
                                       .hint = suggestion(part_name, known)});
}

const MeasuredPart* EvidenceFile::measured_part(const std::string& part_name) const {
  for (const MeasuredPart& part : measured) {
    if (part.name == part_name) return &part;
  }
  return nullptr;
}

EvidenceFile parse_evidence(std::string_view yaml, const std::string& path) {
  EvidenceFile file{.path = path,
                    .name = std::filesystem::path(path).stem().string(),
                    .question = "",
                    .parts = {},
                    .measured = {},
                    .published = {}};
  const Value tree = parse_yaml(yaml, path);
  EvidenceReader(file).read(tree);
  return file;
}

EvidenceFile read_evidence(const std::string& path) {
  return parse_evidence(read_file(path), path);
}

}  // namespace posenc::sweep
