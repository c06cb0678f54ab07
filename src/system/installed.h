// Files that are installed with the program, below share/posenc of its prefix.
#pragma once

#include <filesystem>
#include <string>

namespace posenc {

// The folder that this program is in.
std::filesystem::path program_folder();

// share/posenc of the prefix that this program is in, whether it is there or not.
std::filesystem::path shared_folder();

// `path`, or the installed file where it names one as the documentation does (configs/demo.yaml) and there is none here.
std::string found_config(const std::string& path);

}  // namespace posenc
