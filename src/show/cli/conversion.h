// What `posenc convert` says about a conversion.
#pragma once

#include <string>

#include "posenc/weights/convert.h"

namespace posenc::cli {

enum class ConvertMode { kLayout, kPositions };

std::string conversion_text(const weights::ConvertReport& report, ConvertMode mode, bool dry_run);
std::string conversion_json(const weights::ConvertReport& report, ConvertMode mode, bool dry_run);

}  // namespace posenc::cli
