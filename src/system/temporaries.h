// Temporary files and folders next to their final location. Their process holds a lock on each, so the next process
// can distinguish those of killed processes from those in use, and removes them.
#pragma once

#include <string>
#include <string_view>

#include "core/open_file.h"

namespace posenc {

// Has this name the form of a temporary: something.tmp-<8 hexadecimal digits>?
bool is_temporary(std::string_view name);
// A name of that form next to `path`, drawn at random.
std::string temporary_beside(const std::string& path);

struct Temporary {
  std::string path;
  Descriptor lock;  // the file, open for writing, or the folder
};
// New ones next to `path`. They throw an Error about `path`.
Temporary create_temporary_file(const std::string& path);
Temporary create_temporary_folder(const std::string& path);

// Removes temporaries of `path` whose process has ended. What cannot be removed stays.
void remove_stale_temporaries(const std::string& path);

}  // namespace posenc
