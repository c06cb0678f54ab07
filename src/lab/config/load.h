// The config of an experiment: task, model, training, evaluation. It is read from YAML, with overrides from
// the command line. Missing fields have defaults; the resolved config contains all fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"
#include "config/train_config.h"
#include "core/value.h"
#include "tasks/task.h"

namespace posenc::config {

struct LabConfig {
  std::string name = "run";
  std::int64_t seed = 0;
  tasks::TaskConfig task;
  ModelConfig model;
  TrainConfig train;
  EvalConfig eval;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("name", self.name, FieldRule{.doc = "what tables and the run's folder are called"});
    visit("seed", self.seed,
          FieldRule{.doc = "of weights, samples and dropout", .min = 0, .max = 9e15});
    visit("task", self.task, FieldRule{.doc = "what is learned", .required = true});
    visit("model", self.model, FieldRule{.doc = "the transformer"});
    visit("train", self.train, FieldRule{.doc = "how it is trained"});
    visit("eval", self.eval, FieldRule{.doc = "how it is evaluated"});
  }
  bool operator==(const LabConfig&) const = default;
};

struct Loaded {
  LabConfig config;
  Value tree;  // every field written out
  // 16 hexadecimal digits each: of what decides the trained model, and of what decides the figures that an
  // evaluation of it gives. Lengths or samples can be added to a run without training it again.
  std::string hash;
  std::string eval_hash;
};

// Reads a file; each override is "model.layers=4", its value in YAML. Errors are signed with the path and
// say line and column, or with --set where an override is meant.
Loaded load_config(const std::string& path, const std::vector<std::string>& overrides = {});
// The same from a text; `origin` signs the errors.
Loaded parse_config(std::string_view yaml, const std::string& origin,
                    const std::vector<std::string>& overrides = {});

// Sets one field of a tree: the path is made where it is missing, a named config is opened up
// (task=flip_flop, then task.flip_flop.p=0.5).
void apply_override(Value& tree, const std::string& assignment);

Value resolved_tree(const LabConfig& config);
std::string config_hash(const LabConfig& config);
std::string eval_hash(const EvalConfig& config);
// Whether `longer` is `config` trained for more steps, and nothing else that decides the model.
bool extends(const LabConfig& longer, const LabConfig& config);
// Whether the steps that both have are the same: of a rate that falls towards the last step they are not.
bool extends_exactly(const LabConfig& longer, const LabConfig& config);
std::string task_name(const LabConfig& config);

}  // namespace posenc::config
