// The tables of a plan's site-2 encodings.
#pragma once

#include <memory>

#include "capi/arguments.h"

namespace posenc::capi {

// The index of a site-2 encoding among them, once it is known to exist.
std::size_t check_rotary(const char* op, const posenc_plan& plan, std::int64_t rotary);

// Tables of one: the plan's, or new ones of trained frequencies.
class RotaryTables {
 public:
  RotaryTables(const char* op, const posenc_plan& plan, const posenc_parameters* parameters,
               std::int64_t rotary);
  [[nodiscard]] const RotaryCache* get() const { return tables_; }
  [[nodiscard]] const Rotary& rotary() const { return tables_->rotary(); }

 private:
  std::vector<std::unique_ptr<RotaryCache>> own_;
  const RotaryCache* tables_;
};

}  // namespace posenc::capi
