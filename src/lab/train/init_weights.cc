#include "train/init_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "config/init_from.h"
#include "posenc/core/error.h"
#include "posenc/core/rng.h"
#include "posenc/encodings/spec.h"
#include "pretrained/weight_source.h"
#include "train/evaluate.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

using config::ModelConfig;
using pretrained::WeightSource;

// Names of tensors that belong to the encodings of a model: their parameters, and the layers that make their inputs.
class EncodingNames {
 public:
  explicit EncodingNames(const ModelConfig& model) {
    const ModelShape shape{.head_dim = config::head_dim(model), .heads = model.heads};
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      const Spec spec = attention_part(parse_spec(config::layer_encoding(model, layer)));
      const std::string attention = fmt::format("blocks.{}.attention.", layer);
      for (const SpecInput& input : token_inputs(spec, shape)) {
        layers_.insert(fmt::format("{}{}.", attention, input.info.projection));
      }
      add_identities(attention, spec, shape);
    }
    add_identities("input.", input_part(parse_spec(model.encoding.front())),
                   {.head_dim = model.dim, .heads = 1, .model_dim = model.dim});
  }
  [[nodiscard]] bool has(const std::string& name) const {
    if (model::is_positional(name)) return true;
    return std::any_of(layers_.begin(), layers_.end(),
                       [&](const std::string& layer) { return name.starts_with(layer); });
  }
  [[nodiscard]] bool is_identity_at_zero(const std::string& name) const {
    return identities_.count(name) == 1;
  }

 private:
  void add_identities(const std::string& module, const Spec& spec, const ModelShape& shape) {
    for (const SpecParameter& parameter : parameters(spec, shape)) {
      if (!parameter.info.identity_at_zero) continue;
      identities_.insert(fmt::format("{}pos.{}", module, parameter.info.name));
    }
  }

  std::set<std::string> layers_;
  std::set<std::string> identities_;
};

at::Tensor tensor_of(const WeightSource& source, const std::string& name,
                     const weights::Shape& shape) {
  std::vector<float> values = source.read(name);
  const auto wrong =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (wrong != values.end()) {
    throw Error(ErrorKind::kIo, {.scope = source.path(),
                                 .key = name,
                                 .rule = "must have finite weights",
                                 .value = fmt::format("{}", *wrong),
                                 .hint = "start from other weights"});
  }
  return at::tensor(values, at::kFloat).reshape(shape);
}

// What became of the encodings' parameters, one name of each kind: "pos.cope.pos_emb".
std::string short_name(const std::string& name) {
  const std::size_t begin = name.find("attention.");
  return begin == std::string::npos ? name : name.substr(begin + 10);
}

struct Loading {
  pretrained::Misfits misfits;
  std::set<std::string> used;
  std::set<std::string> fresh;     // short names of new parameters of encodings
  std::set<std::string> left_out;  // of tensors of encodings that the model does not have
  std::int64_t tensors = 0;
};

// A learned table may grow: rows that both have are taken over.
bool take_rows(const WeightSource& source, const std::string& name, const weights::Shape& shape,
               at::Tensor& tensor) {
  const bool table =
      name == "input.pos.learned.weight" && shape.size() == 2 && shape[1] == tensor.size(1);
  if (!table) return false;
  const std::int64_t rows = std::min(shape[0], tensor.size(0));
  tensor.narrow(0, 0, rows).copy_(tensor_of(source, name, shape).narrow(0, 0, rows));
  return true;
}

void load_parameter(const WeightSource& source, const EncodingNames& encodings,
                    const std::string& name, at::Tensor& tensor, Loading& loading) {
  const auto found = source.tensors().find(name);
  const bool of_encoding = encodings.has(name);
  if (found == source.tensors().end()) {
    if (!of_encoding) {
      loading.misfits.missing.push_back(name);
      return;
    }
    loading.fresh.insert(short_name(name));
    if (encodings.is_identity_at_zero(name)) tensor.zero_();
    return;
  }
  loading.used.insert(name);
  if (found->second == tensor.sizes().vec()) {
    tensor.copy_(tensor_of(source, name, found->second));
    ++loading.tensors;
    return;
  }
  if (of_encoding) {
    loading.fresh.insert(short_name(name));
    (void)take_rows(source, name, found->second, tensor);
    return;
  }
  loading.misfits.misshapen.push_back(fmt::format("{} is {}, not {}", name,
                                                  weights::shape_text(found->second),
                                                  weights::shape_text(tensor.sizes().vec())));
}

Loading load_all(model::Transformer& model, const WeightSource& source,
                 const ModelConfig& source_model) {
  const at::NoGradGuard quiet;
  const EncodingNames encodings(model->config());
  const EncodingNames before(source_model);
  Loading loading;
  for (auto& item : model->named_parameters()) {
    load_parameter(source, encodings, item.key(), item.value(), loading);
  }
  // Constants of encodings follow from the spec.
  for (const auto& item : model->named_buffers()) loading.used.insert(item.key());
  for (const auto& [name, shape] : source.tensors()) {
    if (loading.used.count(name) == 1) continue;
    if (before.has(name)) {
      loading.left_out.insert(short_name(name));
    } else {
      loading.misfits.unexpected.push_back(name);
    }
  }
  loading.misfits.throw_if_any(source.path());
  return loading;
}

std::string encodings_text(const ModelConfig& model) {
  return model.encoding.size() == 1 ? "'" + model.encoding.front() + "'"
                                    : fmt::format("[{}]", fmt::join(model.encoding, ", "));
}

bool same_encodings(const ModelConfig& a, const ModelConfig& b) {
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    if (parse_spec(config::layer_encoding(a, layer)) !=
        parse_spec(config::layer_encoding(b, layer))) {
      return false;
    }
  }
  return true;
}

at::Tensor probe(std::int64_t length, std::int64_t vocabulary) {
  Rng rng(0, 0);
  at::Tensor tokens = at::empty({1, length}, at::kLong);
  for (std::int64_t t = 0; t < length; ++t) {
    tokens[0][t] = static_cast<std::int64_t>(rng.uniform() * static_cast<double>(vocabulary));
  }
  return tokens;
}

// Both models on the same tokens: the only judge that knows every encoding.
std::string compared(model::Transformer& model, const WeightSource& source,
                     const ModelConfig& source_model, const config::LabConfig& config,
                     const tasks::Task& task) {
  constexpr std::int64_t kProbe = 512;  // schedules may change only beyond a length
  constexpr double kSame = 1e-4;
  config::LabConfig before = config;
  before.model = source_model;
  model::Transformer old(before.model, model_context(before, task));
  (void)load_all(old, source, source_model);
  std::int64_t length = std::min(kProbe, train_length(config.train));
  for (const std::int64_t longest :
       {config::longest_length(source_model), config::longest_length(model->config())}) {
    if (longest > 0) length = std::min(length, longest);
  }
  const at::NoGradGuard quiet;
  const EvalMode eval(model);
  old->eval();
  const at::Tensor tokens = probe(length, task.info().vocabulary);
  const at::Device device = model->parameters().front().device();
  const at::Tensor then = old->forward(tokens);
  const at::Tensor now = model->forward(tokens.to(device)).to(at::kCPU);
  const double apart = (then - now).abs().max().item<double>();
  const double range = (then.max() - then.min()).item<double>();
  if (apart <= kSame * std::max(1.0, range)) {
    return fmt::format("the model still computes the same (logits of {} tokens within {:.1e})",
                       length, apart);
  }
  return fmt::format(
      "the model does not compute the same (logits of {} tokens differ by up to "
      "{:.3g}, their range is {:.3g})",
      length, apart, range);
}

// "new parameters: pos.cope.pos_emb; left out: pos.t5.weight".
std::string changes_text(const Loading& loading) {
  std::vector<std::string> parts;
  if (!loading.fresh.empty()) {
    parts.push_back(fmt::format("new parameters: {}", fmt::join(loading.fresh, ", ")));
  }
  if (!loading.left_out.empty()) {
    parts.push_back(fmt::format("left out: {}", fmt::join(loading.left_out, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

std::string InitReport::text() const {
  return fmt::format("initial weights: {} tensors from {} ({}){}", tensors, path, kind,
                     encoding.empty() ? "" : "; " + encoding);
}

Value::Map InitReport::facts() const {
  return {{"init_from",
           Value(Value::Data(Value::Map{{"kind", Value::of_string(kind), {}},
                                        {"sha256", Value::of_string(sha256), {}}})),
           {}}};
}

InitReport init_weights(model::Transformer& model, const config::LabConfig& config,
                        const tasks::Task& task) {
  const config::InitSource given = config::read_init_source(config.train.init_from);
  const ModelConfig source_model = given.model.value_or(config.model);
  const WeightSource source(given, source_model, model_context(config, task).vocabulary);
  const Loading loading = load_all(model, source, source_model);
  InitReport report{.path = source.path(),
                    .kind = source.kind(),
                    .sha256 = source.sha256(),
                    .tensors = loading.tensors,
                    .encoding = changes_text(loading)};
  if (!same_encodings(source_model, config.model)) {
    report.encoding = fmt::format("model.encoding {} replaces {}: {}{}{}",
                                  encodings_text(config.model), encodings_text(source_model),
                                  compared(model, source, source_model, config, task),
                                  report.encoding.empty() ? "" : "; ", report.encoding);
  }
  return report;
}

model::Transformer hf_model(const std::string& folder) {
  const config::InitSource given = config::read_init_source(folder);
  if (given.kind != config::InitKind::kHuggingFace) {
    throw Error(ErrorKind::kIo, {.scope = folder,
                                 .key = "",
                                 .rule = "is not a Hugging Face folder: it has no config.json",
                                 .value = "",
                                 .hint = ""});
  }
  const model::ModelContext context{.vocabulary = given.model->vocabulary};
  model::Transformer model(*given.model, context);
  (void)load_all(model, WeightSource(given, *given.model, context.vocabulary), *given.model);
  model->eval();
  return model;
}

}  // namespace posenc::train
