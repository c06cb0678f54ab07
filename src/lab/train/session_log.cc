#include "train/session_log.h"

#include <fmt/format.h>

#include "runs/result_events.h"
#include "train/values.h"

namespace posenc::train {
namespace {

Value norms_value(const NamedNorms& norms) {
  Value::Map members;
  for (const auto& [name, norm] : norms) members.push_back({name, number(norm)});
  return {Value::Data(std::move(members))};
}

}  // namespace

SessionLog::SessionLog(const runs::RunDirectory& directory, std::optional<std::int64_t> resumed_at)
    : metrics_(directory.metrics_path()) {
  if (!resumed_at) {
    events_.emplace(directory.path());
    return;
  }
  metrics_.truncate_after(*resumed_at);
  events_.emplace(directory.path(), *resumed_at);
}

void SessionLog::add(const TrainRow& row) {
  metrics_.append({Value::Data(Value::Map{{"kind", text("train")},
                                          {"step", integer(row.step)},
                                          {"loss", number(row.loss)},
                                          {"accuracy", number(row.accuracy)},
                                          {"lr", number(row.rate)},
                                          {"grad_norm", number(row.gradient_norm)},
                                          {"norms", norms_value(row.norms)},
                                          {"grad_norms", norms_value(row.gradient_norms)},
                                          {"tokens", integer(row.tokens)},
                                          {"seconds", number(row.seconds)},
                                          {"tokens_per_s", number(row.tokens_per_s)}})});
  events_->scalar("train/loss", row.step, row.loss);
  events_->scalar("train/accuracy", row.step, row.accuracy);
  events_->scalar("train/lr", row.step, row.rate);
  events_->scalar("train/grad_norm", row.step, row.gradient_norm);
  events_->scalar("train/tokens_per_s", row.step, row.tokens_per_s);
  for (const auto& [name, norm] : row.norms) events_->scalar("norms/" + name, row.step, norm);
}

void SessionLog::add(const EvalRow& row, Metric metric, std::int64_t step, bool in_domain) {
  const statistics::Estimate& e = row.headline();
  const std::string name(name_of(metric));
  metrics_.append({Value::Data(Value::Map{{"kind", text("eval")},
                                          {"step", integer(step)},
                                          {"axis", text(row.axis)},
                                          {"length", integer(row.length)},
                                          {"metric", text(name)},
                                          {"value", number(e.value)},
                                          {"low", number(e.interval.low)},
                                          {"high", number(e.interval.high)}})});
  const std::string place = in_domain ? "" : fmt::format("/{}_{}", row.axis, row.length);
  events_->scalar(fmt::format("eval{}/{}", place, name), step, e.value);
}

void SessionLog::add_results(const Value& config, const Value& results) {
  runs::add_result_events(*events_, config, results);
  events_->flush();
}

void SessionLog::flush() {
  metrics_.sync();
  events_->flush();
}

}  // namespace posenc::train
