// Argument checks of the reference; every error names the argument.
#pragma once

#include <string>

#include "posenc/core/error.h"
#include "posenc/kernels/ref/attention.h"

namespace posenc::ref {

// [attention] q must have 48 values ([B, H, Tq, D]) but got 47
void require_size(const std::string& scope, const std::string& key, std::size_t size,
                  std::int64_t expected, const std::string& layout);
void require_at_least(const std::string& scope, const std::string& key, std::int64_t value,
                      std::int64_t least);

void check_shape(const std::string& scope, const AttentionShape& shape);
void check_inputs(const std::string& scope, const AttentionShape& shape,
                  const AttentionInputs& inputs, const std::vector<SpecInput>& wanted);

// One entry per encoding; those of the sites that `used` names (null: all) must fit the shape in full.
void check_parameters(const std::string& scope, const Spec& spec, const SpecParameters& parameters,
                      const ModelShape& shape, bool (*used)(Site) = nullptr);

// Gradients start here: zero, and shaped as the values.
SpecParameters zeros_like(const SpecParameters& parameters);

// Refuses rotations with angles from an input, and of values, which linear attention does not have.
void require_plain_rotation(const std::string& scope, const Encoding& encoding);

}  // namespace posenc::ref
