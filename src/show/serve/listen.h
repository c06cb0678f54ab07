// Sockets on the loopback interface.
#pragma once

#include <vector>

#include "system/files.h"

namespace posenc::serve {

struct Listening {
  int port = 0;
  std::vector<Descriptor> sockets;  // 127.0.0.1, and ::1 where the system has it
};

// Port 0: a free one. Throws an Error where the port is taken.
Listening listen_on_loopback(int port);

}  // namespace posenc::serve
