// Where the tests find the source tree and the programs. Defined in paths.cc alone, so that no other test is compiled
// again in another checkout.
#pragma once

namespace posenc::testing {

// The folder tests/ of this checkout.
extern const char* const kTestData;
// Programs of this build; empty where it has none.
extern const char* const kCliPath;
extern const char* const kLabPath;

}  // namespace posenc::testing
