// What tests make of a table: findings in sentences, and which entries are ahead of all others.
//
// Every pair of encodings is compared on the same rows (runs/paired.h), in domain and in each condition beyond
// training, with Holm's correction over the whole table. Conditions of other axes that ask for nothing
// new repeat the in-domain one and are left out. Training speeds are a table of their own.
#pragma once

#include "report/group.h"

namespace posenc::report {

// Adds findings and bests to the table, and notes on runs whose rows could not be used.
void add_findings(const TaskGroup& group, TaskTable& table);

// "in domain", "at 2x", "on sparse at 2x": as a sentence goes on.
std::string place_text(const TaskTable& table, const Cell& cell);

}  // namespace posenc::report
