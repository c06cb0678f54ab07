// Figures as words: the same in a terminal, a document and a page.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

inline constexpr const char* kNothing = "-";

// "99.2" (of an accuracy, in %), "1.0e-03" (of an error), "2.345".
std::string figure_text(double value, const std::string& metric);
std::string estimate_text(const runs::Estimate& e, const std::string& metric);
std::string metric_text(const std::string& metric);  // "accuracy in %"

// "64", or "64 [32,128]" where seeds differ.
std::string effective_text(const EffectiveLength& length);
const EffectiveLength* effective_of(const Entry& entry, const std::string& axis,
                                    const std::string& schedule);
std::string threshold_text(const TaskTable& table);
// What the word means, in a sentence.
std::string effective_note(const TaskTable& table);

std::string speed_text(double tokens_per_s);
std::string cost_text(const Entry& entry);

// Lengths that an axis has anywhere, and the schedules that an entry has on it.
std::vector<double> factors_of(const TaskTable& table, const std::string& axis);
std::vector<std::string> schedules_of(const Entry& entry, const std::string& axis);

// A figure that belongs to the condition, not to the encoding: once where all agree.
using PickFigure = std::function<std::optional<double>(const Cell&)>;
std::string shared_text(const TaskTable& table, const std::string& axis, double factor,
                        const std::string& metric, const PickFigure& pick);
std::string chance_text(const TaskTable& table, const std::string& axis, double factor);
// Per length, the share of answers that training had; nothing where it had all of them.
std::vector<std::string> trained_shares(const TaskTable& table, const std::string& axis,
                                        const std::vector<double>& factors);

// "beyond the training length"
std::string ranking_place(const Ranking& ranking);
// Best first.
std::vector<std::size_t> ranking_order(const Ranking& ranking);

}  // namespace posenc::report
